// Four threads make native blocks (zlib states, direct buffers) that the collector frees from its own thread.
// With the argument "rounds", does one round for each line of the input and answers each with one line.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Deflate {
  static long work(int name, int turns) {
    CRC32 sum = new CRC32();
    for (int turn = 0; turn < turns; turn++) {
      byte[] input = new byte[100_000], output = new byte[110_000];
      for (int i = 0; i < input.length; i++) input[i] = (byte) (i * (turn + name) >> 7);
      Deflater deflater = new Deflater(1 + turn % 6);
      deflater.setInput(input);
      deflater.finish();
      sum.update(output, 0, deflater.deflate(output));
      if (turn % 2 == 0) deflater.end();
      ByteBuffer.allocateDirect(1 << (8 + turn % 12)).putLong(0, turn);
    }
    return sum.getValue();
  }

  static String play(int first, int turns) throws Exception {
    long[] sums = new long[4];
    Thread[] threads = new Thread[sums.length];
    for (int i = 0; i < threads.length; i++) {
      int name = first + i;
      int index = i;
      threads[i] = new Thread(() -> sums[index] = work(name, turns));
      threads[i].start();
    }
    for (Thread each : threads) each.join();
    StringBuilder line = new StringBuilder();
    for (long sum : sums) line.append(Long.toHexString(sum)).append(' ');
    return line.toString();
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 0) {
      System.out.println(play(0, 250));
      return;
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      System.out.println(play(Integer.parseInt(line), 40));
      System.gc();
    }
  }
}
