package cospark;

import java.io.IOException;
import java.io.RandomAccessFile;

/**
 * The watch of jvm_lease.py. Janino compiles it when Spark starts, and knows no lambdas.
 *
 * All times are in nanoseconds by its own clock: the kernel's time since boot, or Java's clock, which stands still while
 * the host is suspended.
 */
public final class LeaseWatch implements Runnable {
    /** ENDED_BY_LEASE in jvm_lease.py. */
    private static final int STATUS = 75;
    /** It does not sleep until the end: its sleep may be measured by a clock that stands still. */
    private static final long LONGEST_SLEEP_MS = 100;

    private final byte[] line = new byte[64];
    private RandomAccessFile uptime;
    private long suspended;
    private long until;
    private boolean held;
    private boolean watched;

    public LeaseWatch() {
        try {
            uptime = new RandomAccessFile("/proc/uptime", "r");
            suspended = ahead();
        } catch (Exception unknown) {
            uptime = null;
        }
    }

    /** By how much the time since boot is ahead of Java's clock; a little less, as that is read later. */
    private long ahead() throws IOException {
        uptime.seek(0);
        String seconds = new String(line, 0, uptime.read(line)).split(" ")[0];
        return (long) (Double.parseDouble(seconds) * 1e9) - System.nanoTime();
    }

    public synchronized long now() {
        if (uptime != null) {
            try {
                suspended = Math.max(suspended, ahead());
            } catch (Throwable unreadable) {
                // As far as it is known; without memory, too, the watch goes on.
            }
        }
        return System.nanoTime() + suspended;
    }

    public synchronized void renew(long end) {
        haltIfOver();
        until = end;
        held = true;
        haltIfOver();
        if (!watched) {
            watched = true;
            Thread thread = new Thread(this, "cospark-lease");
            thread.setDaemon(true);
            thread.start();
        }
    }

    public synchronized void rest() {
        haltIfOver();
        held = false;
        notifyAll();
    }

    public synchronized void run() {
        while (held) {
            haltIfOver();
            try {
                wait(Math.max(1L, Math.min(LONGEST_SLEEP_MS, (until - now()) / 1000000L)));
            } catch (InterruptedException ignored) {
                // nobody may stop it in this way
            }
        }
        watched = false;
    }

    private void haltIfOver() {
        if (held && now() >= until) {
            Runtime.getRuntime().halt(STATUS);
        }
    }
}
