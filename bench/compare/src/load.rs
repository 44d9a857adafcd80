//! Load generators: dnsperf for many clients, and our own for a single outstanding query, where every
//! microsecond of the generator counts. The server's resources are measured in `measure.rs`.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::{Context, Failure, Result};
use crate::{namespaces, sys, tcp};

/// Results of a load generator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Number of queries sent.
    pub(crate) sent: u64,
    /// Number of queries answered.
    pub(crate) answered: u64,
    /// Duration in seconds.
    pub(crate) seconds: f64,
    /// Answers by response code.
    pub(crate) rcodes: BTreeMap<String, u64>,
    /// Mean size of a response in bytes.
    pub(crate) response_size: Option<f64>,
    /// Latency in microseconds.
    pub(crate) latency: Latency,
    /// Number of answers to a probe beside the load, which the server worked for as well.
    pub(crate) probed: u64,
}

/// Latency in microseconds; `None` where the generator does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Latency {
    /// Arithmetic mean.
    pub(crate) mean: Option<f64>,
    /// Median.
    pub(crate) p50: Option<f64>,
    /// 99th percentile.
    pub(crate) p99: Option<f64>,
}

impl Latency {
    /// Computes the latency from single measurements in nanoseconds.
    pub(crate) fn of(nanoseconds: &mut [u64]) -> Latency {
        if nanoseconds.is_empty() {
            return Latency::default();
        }
        nanoseconds.sort_unstable();
        let at =
            |share: f64| nanoseconds[((nanoseconds.len() - 1) as f64 * share).round() as usize] as f64 / 1e3;
        let mean = nanoseconds.iter().sum::<u64>() as f64 / nanoseconds.len() as f64 / 1e3;
        Latency { mean: Some(mean), p50: Some(at(0.5)), p99: Some(at(0.99)) }
    }
}

/// dnsperf's warnings per failed query are off: they could fill the pipe, which is only read at the end.
const SUPPRESSED: &str = "suppress=timeouts,congestion,sendfailed,sockready,unexpected";

/// Parameters of dnsperf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dnsperf {
    /// Number of sockets, each with its own port.
    pub(crate) clients: usize,
    /// Number of queries in flight over all sockets.
    pub(crate) outstanding: usize,
    /// Queries per second; `None` sends as many as are answered.
    pub(crate) rate: Option<u64>,
    /// Whether to use TCP, pipelined.
    pub(crate) tcp: bool,
}

/// Runs dnsperf for `seconds`.
pub(crate) fn dnsperf(server: SocketAddr, queries: &Path, how: Dnsperf, seconds: f64) -> Result<Load> {
    let mut command = dnsperf_command(server, how, 1);
    command.args(["-l", &format!("{seconds}")]).arg("-d").arg(queries);
    let output =
        run(&mut command, Duration::from_secs_f64(seconds + 30.0)).context(|| "dnsperf".to_string())?;
    figures(&output)
}

/// Seconds after which a query that is sent once counts as lost.
const LOST_AFTER_SECONDS: u32 = 5;

/// Runs dnsperf once through the queries, however long that takes.
pub(crate) fn dnsperf_once(
    server: SocketAddr,
    queries: &Path,
    how: Dnsperf,
    patience: Duration,
) -> Result<Load> {
    let mut command = dnsperf_command(server, how, LOST_AFTER_SECONDS);
    command.args(["-n", "1"]).arg("-d").arg(queries);
    figures(&run(&mut command, patience).context(|| "dnsperf".to_string())?)
}

/// Runs dnsperf for `seconds` with queries that `next` appends to its buffer one by one: they are made on the
/// fly, so none is repeated.
pub(crate) fn dnsperf_fed(
    server: SocketAddr,
    how: Dnsperf,
    seconds: f64,
    mut next: impl FnMut(&mut Vec<u8>) + Send,
) -> Result<Load> {
    let mut command = dnsperf_command(server, how, 1);
    command.args(["-l", &format!("{seconds}")]).stdin(Stdio::piped());
    let mut child = start(&mut command)?;
    let input = child.stdin.take().context(|| "dnsperf without input".to_string())?;
    let patience = Duration::from_secs_f64(seconds + 30.0);
    let output = std::thread::scope(|scope| {
        scope.spawn(move || feed(input, &mut next));
        finish(child, patience)
    });
    figures(&output.context(|| "dnsperf".to_string())?)
}

/// Writes queries until the reader closes the pipe.
fn feed(mut out: impl Write, next: &mut impl FnMut(&mut Vec<u8>)) {
    const PAGE: usize = 16 << 10;
    let mut page = Vec::with_capacity(PAGE + 512);
    loop {
        page.clear();
        while page.len() < PAGE {
            let at = page.len();
            page.extend_from_slice(&[0, 0]);
            next(&mut page);
            let length = (page.len() - at - 2) as u16;
            page[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        if out.write_all(&page).is_err() {
            return;
        }
    }
}

fn dnsperf_command(server: SocketAddr, how: Dnsperf, patience: u32) -> Command {
    let patience = patience.to_string();
    let mut command = Command::new("dnsperf");
    command
        .args(["-B", "-s", &server.ip().to_string(), "-p", &server.port().to_string()])
        .args([
            "-c",
            &how.clients.to_string(),
            "-q",
            &how.outstanding.to_string(),
            "-T",
            "1",
            "-t",
            &patience,
        ])
        .args(["-m", if how.tcp { "tcp" } else { "udp" }, "-O", SUPPRESSED]);
    if let Some(rate) = how.rate {
        command.args(["-Q", &rate.to_string()]);
    }
    command
}

/// Parses the figures that dnsperf printed.
fn figures(output: &Output) -> Result<Load> {
    let text = String::from_utf8_lossy(&output.stdout);
    parse_dnsperf(&text).context(|| {
        format!("dnsperf printed no figures: {} {}", text.trim_end(), String::from_utf8_lossy(&output.stderr))
    })
}

/// Runs dnsperf, which only reports the mean latency, with a probe beside it that adds the percentiles.
pub(crate) fn dnsperf_probed(
    server: SocketAddr,
    queries: &Path,
    how: Dnsperf,
    seconds: f64,
    probes: &[Vec<u8>],
) -> Result<Load> {
    let done = AtomicBool::new(false);
    let (load, times) = std::thread::scope(|scope| {
        let probe = scope.spawn(|| probe(server, probes, &done));
        let load = dnsperf(server, queries, how, seconds);
        done.store(true, Ordering::Relaxed);
        (load, probe.join())
    });
    let mut load = load?;
    let mut times = times.unwrap_or_else(|_| Ok(Vec::new()))?;
    let Latency { p50, p99, .. } = Latency::of(&mut times);
    load.latency = Latency { p50, p99, ..load.latency };
    load.probed = times.len() as u64;
    Ok(load)
}

/// Sends a query every 2 ms, and returns the time until its answer reached the socket, in nanoseconds. The
/// kernel records the arrival, so that waiting for the generator's CPU is not counted as the server's time.
fn probe(server: SocketAddr, queries: &[Vec<u8>], done: &AtomicBool) -> Result<Vec<u64>> {
    let socket = namespaces::socket(None, server)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    sys::stamp_arrivals(&socket)?;
    let mut times = Vec::new();
    let mut buffer = [0; 4096];
    for (number, query) in queries.iter().cycle().enumerate() {
        if done.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
        let mut message = query.clone();
        let id = (number as u16).to_be_bytes();
        message[..2].copy_from_slice(&id);
        let sent = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        socket.send(&message)?;
        while let Ok((length, stamp)) = sys::receive_stamped(&socket, &mut buffer) {
            if length >= 12 && buffer[..2] == id {
                times.extend(
                    stamp.and_then(|stamp| stamp.checked_sub(sent)).map(|took| took.as_nanos() as u64),
                );
                break;
            }
        }
    }
    Ok(times)
}

/// Runs kxdpgun in the client's namespace for `seconds`, sending `rate` queries per second regardless of
/// answers. Fractions of a second are rounded up, as kxdpgun 3.5 requires.
pub(crate) fn kxdpgun(port: u16, queries: &Path, cpu: usize, rate: u64, seconds: f64) -> Result<Load> {
    let seconds = seconds.ceil().max(1.0);
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", namespaces::CLIENT, "kxdpgun", "-t", &format!("{seconds}")])
        .args(["-Q", &rate.to_string(), "-b", "32", "-F", &cpu.to_string(), "-p", &port.to_string()])
        .args(["-I", namespaces::CLIENT_INTERFACE, "-i"])
        .arg(queries)
        .arg(namespaces::SERVER_ADDRESS.to_string());
    // The kernel takes a moment to release the interface after the last run.
    let end = Instant::now() + Duration::from_secs(3);
    let (output, text) = loop {
        let output =
            run(&mut command, Duration::from_secs_f64(seconds + 30.0)).context(|| "kxdpgun".to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let busy = String::from_utf8_lossy(&output.stderr).contains("busy") || text.contains("busy");
        if !busy || Instant::now() > end {
            break (output, text);
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let load = parse_kxdpgun(&text).context(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("kxdpgun printed no figures: {} {}", text.trim(), error.trim())
    })?;
    // It prints whole seconds only.
    Ok(Load { seconds, ..load })
}

/// Parses the figures that kxdpgun prints at its end.
pub(crate) fn parse_kxdpgun(text: &str) -> Option<Load> {
    let field =
        |name: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let number = |name: &str| field(name)?.split_ascii_whitespace().next()?.parse::<f64>().ok();
    let code = |line: &str| -> Option<(String, u64)> {
        let (name, rest) = line.trim_start().strip_prefix("responded ")?.split_once(':')?;
        Some((name.to_string(), rest.split_ascii_whitespace().next()?.parse().ok()?))
    };
    Some(Load {
        sent: number("total queries")? as u64,
        answered: number("total replies")? as u64,
        seconds: number("duration")?,
        rcodes: text.lines().filter_map(code).collect(),
        response_size: number("average DNS reply size"),
        latency: Latency::default(),
        probed: 0,
    })
}

/// Runs a generator to its end, or kills it if it takes too long or the user interrupts.
pub(crate) fn run(command: &mut Command, patience: Duration) -> Result<Output> {
    finish(start(command.stdin(Stdio::null()))?, patience)
}

fn start(command: &mut Command) -> Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(|| format!("cannot start {program}"))
}

fn finish(mut child: Child, patience: Duration) -> Result<Output> {
    let deadline = Instant::now() + patience;
    // A generator prints one page at most, which fits into a pipe's buffer.
    while child.try_wait()?.is_none() {
        if sys::interrupted() || Instant::now() > deadline {
            end(&mut child);
            return Err(Failure::new(if sys::interrupted() { "interrupted" } else { "took too long" }));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(child.wait_with_output()?)
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Parses the figures that dnsperf 2.x prints at its end.
pub(crate) fn parse_dnsperf(text: &str) -> Option<Load> {
    let field = |name: &str| {
        text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let number = |name: &str| field(name)?.split_ascii_whitespace().next()?.parse::<f64>().ok();
    let mut rcodes = BTreeMap::new();
    for part in field("Response codes").unwrap_or("").split(',') {
        let mut words = part.split_ascii_whitespace();
        if let (Some(name), Some(Ok(count))) = (words.next(), words.next().map(str::parse)) {
            rcodes.insert(name.to_string(), count);
        }
    }
    let response_size = field("Average packet size")
        .and_then(|sizes| sizes.split("response").nth(1)?.trim().parse::<f64>().ok());
    Some(Load {
        sent: number("Queries sent")? as u64,
        answered: number("Queries completed")? as u64,
        seconds: number("Run time (s)")?,
        rcodes,
        response_size,
        latency: Latency {
            // An answer after dnsperf's timeout sometimes makes its sum meaningless.
            mean: number("Average Latency (s)")
                .filter(|seconds| *seconds < 3600.0)
                .map(|seconds| seconds * 1e6),
            p50: None,
            p99: None,
        },
        probed: 0,
    })
}

/// Keeps one query outstanding over one connected socket: sends, waits, records the time, sends the next.
/// Begins with the query numbered `first`.
pub(crate) fn round_trips(
    server: SocketAddr,
    queries: &[Vec<u8>],
    first: usize,
    seconds: f64,
) -> Result<Load> {
    let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(server).context(|| format!("cannot reach {server}"))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut load = Load::default();
    let mut codes = [0u64; 16];
    let mut times = Vec::with_capacity((seconds * 80_000.0) as usize);
    let (mut message, mut buffer) = ([0u8; 512], [0u8; 4096]);
    let mut bytes = 0;
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    for query in queries.iter().cycle().skip(first) {
        let length = query.len().min(message.len());
        message[..length].copy_from_slice(&query[..length]);
        let id = (load.sent as u16).to_be_bytes();
        message[..2].copy_from_slice(&id);
        load.sent += 1;
        let sent = Instant::now();
        socket.send(&message[..length])?;
        let received = loop {
            match socket.recv(&mut buffer) {
                Ok(received) if received >= 12 && buffer[..2] == id => break Some(received),
                Ok(_) => {}
                Err(_) => break None,
            }
        };
        let now = Instant::now();
        if let Some(received) = received {
            times.push((now - sent).as_nanos() as u64);
            bytes += received;
            codes[usize::from(buffer[3] & 15)] += 1;
        }
        if now >= end || sys::interrupted() {
            break;
        }
    }
    load.seconds = began.elapsed().as_secs_f64();
    load.answered = times.len() as u64;
    load.rcodes = named(&codes);
    load.response_size = (!times.is_empty()).then(|| bytes as f64 / times.len() as f64);
    load.latency = Latency::of(&mut times);
    Ok(load)
}

/// Sends one query on each TCP connection, one connection after the other in each of `clients` threads.
///
/// Connections are reset, not closed, at the end, so that no port stays in TIME_WAIT and the run can be of
/// any length.
pub(crate) fn connections(
    server: SocketAddr,
    queries: &[Vec<u8>],
    clients: usize,
    seconds: f64,
) -> Result<Load> {
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    let parts: Vec<Connections> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn(move || connect_until(server, queries, client * queries.len() / clients, end))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut codes = [0; 16];
    let mut times = Vec::new();
    let mut load = Load { seconds: began.elapsed().as_secs_f64(), ..Load::default() };
    let mut bytes = 0;
    for part in parts {
        load.sent += part.sent;
        bytes += part.bytes;
        times.extend(part.times);
        for (sum, count) in codes.iter_mut().zip(part.codes) {
            *sum += count;
        }
    }
    load.answered = times.len() as u64;
    load.rcodes = named(&codes);
    load.response_size = (!times.is_empty()).then(|| bytes as f64 / times.len() as f64);
    load.latency = Latency::of(&mut times);
    Ok(load)
}

#[derive(Default)]
struct Connections {
    sent: u64,
    bytes: usize,
    codes: [u64; 16],
    times: Vec<u64>,
}

fn connect_until(server: SocketAddr, queries: &[Vec<u8>], first: usize, end: Instant) -> Connections {
    let mut seen = Connections::default();
    for query in queries.iter().cycle().skip(first) {
        if Instant::now() >= end || sys::interrupted() {
            break;
        }
        seen.sent += 1;
        let began = Instant::now();
        if let Ok((rcode, bytes)) = one_connection(server, query) {
            seen.times.push(began.elapsed().as_nanos() as u64);
            seen.codes[usize::from(rcode)] += 1;
            seen.bytes += bytes;
        }
    }
    seen
}

/// Size of one read of a connection from the kernel, in bytes: as long as most responses.
const BUFFER: usize = 2048;

fn one_connection(server: SocketAddr, query: &[u8]) -> std::io::Result<(u8, usize)> {
    let mut connection = tcp::Connection::open(server, Duration::from_secs(2), BUFFER)?;
    sys::reset_on_close(connection.stream())?;
    connection.send(query)?;
    let mut response = Vec::new();
    connection.receive(&mut response)?;
    let rcode = response.get(3).map(|byte| byte & 15);
    rcode.map(|rcode| (rcode, response.len())).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Returns the counts of the response codes that occurred, by name.
pub(crate) fn named(codes: &[u64; 16]) -> BTreeMap<String, u64> {
    const NAMES: [&str; 6] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
    let name = |code: usize| NAMES.get(code).map_or_else(|| format!("RCODE{code}"), |name| name.to_string());
    codes
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(code, count)| (name(code), *count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DNSPERF: &str = "Statistics:

  Queries sent:         150752
  Queries completed:    150750 (100.00%)
  Queries lost:         2 (0.00%)

  Response codes:       NOERROR 128000 (84.91%), NXDOMAIN 22750 (15.09%)
  Average packet size:  request 38, response 91
  Run time (s):         1.000101
  Queries per second:   150736.775586

  Average Latency (s):  0.000050 (min 0.000008, max 0.001529)
  Latency StdDev (s):   0.000024
";

    #[test]
    fn dnsperf_figures_are_read() {
        let load = parse_dnsperf(DNSPERF).unwrap();
        assert_eq!((load.sent, load.answered), (150_752, 150_750));
        assert_eq!(load.seconds, 1.000101);
        assert_eq!(load.response_size, Some(91.0));
        assert_eq!(load.rcodes["NXDOMAIN"], 22_750);
        assert!((load.latency.mean.unwrap() - 50.0).abs() < 1e-6);
        assert_eq!(parse_dnsperf("dnsperf: no such file"), None);
        let nonsense = DNSPERF.replace("(s):  0.000050", "(s):  1443526.952200");
        assert_eq!(parse_dnsperf(&nonsense).unwrap().latency.mean, None);
    }

    const KXDPGUN: &str = "using interface vga, XDP threads 1, UDP, native mode
thread#00: sent 1200000, received 184450
total queries:     1200000 (600000 pps)
total replies:     184450 (92225 pps) (15%)
average DNS reply size: 38 B
average Ethernet reply rate: 59192908 bps (59.19 Mbps)
responded NOERROR:   184000
responded NXDOMAIN:   450
duration: 2 s
";

    #[test]
    fn kxdpgun_figures_are_read() {
        let load = parse_kxdpgun(KXDPGUN).unwrap();
        assert_eq!((load.sent, load.answered, load.seconds), (1_200_000, 184_450, 2.0));
        assert_eq!(load.response_size, Some(38.0));
        assert_eq!(load.rcodes["NXDOMAIN"], 450);
        assert_eq!(parse_kxdpgun("error: no interface"), None);
        // Output of version 3.5.
        let newer = KXDPGUN
            .replace("thread#00", "cumulative metrics:\nthread#00")
            .replace("duration: 2 s", "duration: 2.0011 s");
        let newer = parse_kxdpgun(&newer).unwrap();
        assert_eq!((newer.sent, newer.seconds), (1_200_000, 2.0011));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut times: Vec<u64> = (1..=101).rev().map(|n| n * 1000).collect();
        let latency = Latency::of(&mut times);
        assert_eq!((latency.mean, latency.p50, latency.p99), (Some(51.0), Some(51.0), Some(100.0)));
        assert_eq!(Latency::of(&mut []), Latency::default());
    }

    #[test]
    fn round_trips_count_answers_and_codes() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            server.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
            while let Ok((length, peer)) = server.recv_from(&mut buffer) {
                buffer[2] |= 0x80;
                buffer[3] = 3;
                server.send_to(&buffer[..length], peer).unwrap();
            }
        });
        let load = round_trips(address, &[vec![0; 20]], 3, 0.05).unwrap();
        echo.join().unwrap();
        assert!(load.answered > 0 && load.answered == load.sent, "{load:?}");
        assert_eq!(load.rcodes["NXDOMAIN"], load.answered);
        assert_eq!(load.response_size, Some(20.0));
        assert!(load.latency.p99 >= load.latency.p50);
    }
}
