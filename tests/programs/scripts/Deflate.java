// Four threads make native blocks (zlib states, direct buffers) that the collector frees from its own thread.
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Deflate {
  static long work(int name) {
    CRC32 sum = new CRC32();
    for (int turn = 0; turn < 250; turn++) {
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

  public static void main(String[] arguments) throws Exception {
    long[] sums = new long[4];
    Thread[] threads = new Thread[sums.length];
    for (int i = 0; i < threads.length; i++) {
      int name = i;
      threads[i] = new Thread(() -> sums[name] = work(name));
      threads[i].start();
    }
    for (Thread each : threads) each.join();
    for (long sum : sums) System.out.println(Long.toHexString(sum));
  }
}
