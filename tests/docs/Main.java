// A reader's program in Java: its heap's size is the knob.
public class Main {
    public static void main(String[] arguments) {
        long sum = 0;
        for (int i = 0; i < 100_000; i++) sum += new byte[100].length;
        System.out.println(sum);
    }
}
