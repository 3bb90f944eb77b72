"""What a memory checker finds in a program that runs on an annotated allocator."""
