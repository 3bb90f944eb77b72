// A map of entries with values of 16 to 4300 bytes, a quarter of the operations removing, and a ring of 64 trees beside
// it: work for a collector. Usage: Churn OPERATIONS KEYS
import java.util.HashMap;

public final class Churn {
  private record Tree(Tree left, Tree right) {
    static Tree grow(int depth) {
      return depth == 0 ? null : new Tree(grow(depth - 1), grow(depth - 1));
    }

    static int weight(Tree tree) {
      return tree == null ? 0 : 1 + weight(tree.left) + weight(tree.right);
    }
  }

  private static long state = 88172645463325252L;

  private static int draw(int bound) {
    state ^= state << 13;
    state ^= state >>> 7;
    state ^= state << 17;
    return (int) Long.remainderUnsigned(state, bound);
  }

  public static void main(String[] words) {
    int operations = Integer.parseInt(words[0]), keys = Integer.parseInt(words[1]);
    HashMap<Integer, byte[]> store = new HashMap<>(keys);
    Tree[] ring = new Tree[64];
    long sum = 0;
    for (int i = 0; i < operations; i++) {
      int key = draw(keys);
      if (draw(4) == 0) store.remove(key);
      else store.put(key, new byte[16 + draw(draw(20) == 0 ? 4284 : 284)]);
      if (i % 256 == 0) {
        int place = i / 256 % 64;
        sum += Tree.weight(ring[place]);
        ring[place] = Tree.grow(8 + draw(6));
      }
    }
    long total = 0;
    for (byte[] value : store.values()) total += value.length;
    System.out.println(store.size() + " " + total + " " + sum);
  }
}
