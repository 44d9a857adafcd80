//! Runs `nomen serve` in a folder of its own, which reports on its notification socket when it is ready.
//!
//! No test here depends on speed: conditions that a returned call does not guarantee are awaited with
//! [`eventually`].

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Longest wait for anything, far above any expected duration.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Minimal records at the apex.
pub(crate) const APEX: &str =
    "$TTL 60\n@ SOA ns1 admin 1 3600 600 86400 60\n@ NS ns1\n@ NS ns2\nns1 A 192.0.2.1\nns2 A 192.0.2.2\n";

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, server: &Server, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + TEST_TIMEOUT;
    while !so() {
        assert!(Instant::now() < until, "not so in {TEST_TIMEOUT:?}: {what}\n{}", server.log());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a command that runs the program.
pub(crate) fn nomen(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nomen"));
    without_manager(&mut command).args(arguments);
    command
}

/// Removes a service manager's environment variables, which must not affect programs of a test.
pub(crate) fn without_manager(command: &mut Command) -> &mut Command {
    let variables = ["NOTIFY_SOCKET", "XDG_RUNTIME_DIR", "STATE_DIRECTORY", "WATCHDOG_USEC", "LISTEN_PID"];
    variables.iter().fold(command, |command, variable| command.env_remove(variable))
}

/// Runs the program to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    nomen(arguments).current_dir(folder).output().expect("nomen runs")
}

/// Returns the resident memory of a process in bytes.
pub(crate) fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says so");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes << 10
}

/// Returns the output of a program as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a loopback address that no other process uses: the address belongs to this process (Linux has all
/// of 127.0.0.0/8 on loopback), and the port is used once in it and below the ephemeral ones.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(10_000);
    // A process ID has at most 22 bits.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(127, 64 + a, b, c), NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Waits until the clock shows another second. After a crash, a server refuses what is signed at its start or
/// before: it may have been executed.
pub(crate) fn next_second() {
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
    let now = second();
    while second() <= now {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns an address as written in the configuration.
pub(crate) fn written(address: SocketAddr) -> String {
    format!("\"{}@{}\"", address.ip(), address.port())
}

/// Locked by tests that start a server at the port of the built-in configuration.
pub(crate) static BUILT_IN_PORT: Mutex<()> = Mutex::new(());

/// A running server; killed when dropped.
pub(crate) struct Server {
    /// Its folder: configuration, zones, control socket, log.
    pub(crate) folder: TempDir,
    /// Its address.
    pub(crate) address: SocketAddr,
    child: Child,
    notify: UnixDatagram,
}

impl Server {
    /// Starts a server for zone `example.` with this text, and more configuration.
    pub(crate) fn start(zone: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("example.zone"), zone).expect("written");
        Self::start_in(folder, "", more)
    }

    /// Starts a server in a prepared folder and writes its configuration, with more keys for `[server]` and
    /// more sections.
    pub(crate) fn start_in(folder: TempDir, keys: &str, more: &str) -> Self {
        Self::start_at(free_address(), folder, keys, more)
    }

    /// Like [`start_in`](Self::start_in), at an earlier server's address.
    pub(crate) fn start_at(address: SocketAddr, folder: TempDir, keys: &str, more: &str) -> Self {
        Self::start_with_environment(address, folder, keys, more, &[])
    }

    /// Like [`start_at`](Self::start_at), with more environment variables.
    pub(crate) fn start_with_environment(
        address: SocketAddr,
        folder: TempDir,
        keys: &str,
        more: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let config = format!(
            "[server]\nworkers = 2\n{keys}[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n\
             [template.folder]\ndirectory = \".\"\n{more}",
            written(address)
        );
        fs::write(folder.path().join("nomen.toml"), config).expect("written");
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        let mut command = nomen(&["serve", "--config", "nomen.toml"]);
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("the log")).stderr(log);
        Self::start_by(command, address, folder)
    }

    /// Starts the server by a command in a folder with its configuration; the command must write its output
    /// to the file `log`.
    pub(crate) fn start_by(mut command: Command, address: SocketAddr, folder: TempDir) -> Self {
        let notify_path = folder.path().join("notify.sock");
        // From an earlier server in the same folder.
        let _ = fs::remove_file(&notify_path);
        let notify = UnixDatagram::bind(&notify_path).expect("a notification socket");
        notify.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        command.current_dir(folder.path()).env("NOTIFY_SOCKET", &notify_path);
        let child = command.spawn().expect("nomen starts");
        let server = Self { folder, address, child, notify };
        server.wait_for_state("READY=1");
        server
    }

    /// Waits until the server has reported this state.
    pub(crate) fn wait_for_state(&self, state: &str) {
        let mut buf = [0; 512];
        loop {
            let size = match self.notify.recv(&mut buf) {
                // A process that was stopped and continued has its wait interrupted.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                received => received.unwrap_or_else(|e| panic!("no {state}: {e}\n{}", self.log())),
            };
            if text(&buf[..size]).lines().any(|line| line == state) {
                return;
            }
        }
    }

    /// Returns the log so far. Lines are written by another thread, so the last ones may be missing.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits until the log contains these words at least `times` times.
    pub(crate) fn wait_for_log(&self, words: &str, times: usize) {
        let what = format!("the log has {times} times: {words}");
        eventually(&what, self, || self.log().matches(words).count() >= times);
    }

    /// Returns a path in the server's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as editors do: moves a new one over it.
    pub(crate) fn write(&self, name: &str, contents: &str) {
        let fresh = self.path("fresh");
        fs::write(&fresh, contents).expect("written");
        fs::rename(fresh, self.path(name)).expect("moved");
    }

    /// Changes words of the configuration file, which must contain them.
    pub(crate) fn reconfigure(&self, from: &str, to: &str) {
        let config = fs::read_to_string(self.path("nomen.toml")).expect("the configuration");
        assert!(config.contains(from), "{config}");
        self.write("nomen.toml", &config.replace(from, to));
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("the server is there");
    }

    /// Reloads through the control socket, which answers when it is done; returns the report of a successful
    /// reload.
    pub(crate) fn reload(&self) -> serde_json::Value {
        self.ctl_json(&["reload"])
    }

    /// Reloads with faults, which the exit code must show; returns the report.
    pub(crate) fn reload_badly(&self) -> serde_json::Value {
        let output = self.ctl(&["reload", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}\n{}", text(&output.stdout), self.log());
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Starts a server that serves every `NAME.zone` of its folder `zones`: these names, and `example.`. Its
    /// log goes to the terminal, that is to [`log`](Self::log).
    pub(crate) fn start_with_folder(names: &[&str], keys: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let zones = folder.path().join("zones");
        fs::create_dir(&zones).expect("made");
        names.iter().for_each(|name| fs::write(zones.join(format!("{name}.zone")), APEX).expect("written"));
        fs::write(folder.path().join("example.zone"), APEX).expect("written");
        Self::start_in(folder, "", &format!("[template.zones]\ndirectory = \"zones\"\n{keys}"))
    }

    /// Reloads by SIGHUP and waits for its end.
    pub(crate) fn hang_up(&self) {
        // Reports of earlier reloads have already arrived: they are sent before the answer.
        self.notify.set_nonblocking(true).expect("set");
        while self.notify.recv(&mut [0; 512]).is_ok() {}
        self.notify.set_nonblocking(false).expect("set");
        self.signal(Signal::SIGHUP);
        self.wait_for_state("RELOADING=1");
        self.wait_for_state("READY=1");
    }

    /// Runs `nomen ctl`.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        let mut all = vec!["ctl", "--socket", "ctl.sock"];
        all.extend(arguments);
        run(self.folder.path(), &all)
    }

    /// Runs `nomen ctl` with success and returns its answer.
    pub(crate) fn ctl_json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.ctl(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}\n{}", text(&output.stdout), self.log());
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Returns a counter of `nomen ctl stats`; 0 if it does not exist.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.ctl_json(&["stats"])[name].as_u64().unwrap_or(0)
    }

    /// Runs `nomen query`, with one try and a long timeout, and returns its output.
    pub(crate) fn query(&self, words: &[&str]) -> String {
        let server = format!("@{}@{}", self.address.ip(), self.address.port());
        let time = format!("+time={}", TEST_TIMEOUT.as_secs());
        let output = run(self.folder.path(), &[&["query", &server, &time, "+tries=1"], words].concat());
        text(&output.stdout) + &text(&output.stderr)
    }

    /// Stops the server and returns its folder, for another server.
    pub(crate) fn stop(mut self) -> TempDir {
        self.signal(Signal::SIGTERM);
        assert!(self.wait().success(), "{}", self.log());
        let empty = tempfile::tempdir().expect("a folder");
        std::mem::replace(&mut self.folder, empty)
    }

    /// Starts another server in the same folder, which takes over; this one ends.
    pub(crate) fn taken_over_by(mut self, command: Command) -> Self {
        let empty = tempfile::tempdir().expect("a folder");
        let folder = std::mem::replace(&mut self.folder, empty);
        let next = Self::start_by(command, self.address, folder);
        assert!(self.wait().success(), "{}", next.log());
        next
    }

    /// Kills the server and returns its folder.
    pub(crate) fn kill(mut self) -> TempDir {
        self.signal(Signal::SIGKILL);
        assert!(!self.wait().success());
        let empty = tempfile::tempdir().expect("a folder");
        std::mem::replace(&mut self.folder, empty)
    }

    /// Returns the process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        resident(self.id())
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + TEST_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < until, "the server does not end:\n{}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A server without a configuration file, on its fixed port; killed when dropped.
pub(crate) struct BuiltIn {
    child: Child,
    folder: TempDir,
    /// Its standard output up to the end of the greeting.
    pub(crate) greeting: String,
}

impl BuiltIn {
    /// Starts `nomen serve` with these arguments and waits for its greeting. `None` if another program has
    /// the port, which the error must report. The caller holds [`BUILT_IN_PORT`].
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let errors = fs::File::create(folder.path().join("errors")).expect("a file");
        let mut child = nomen(&[&["serve"], arguments].concat())
            .current_dir(folder.path())
            .env("XDG_RUNTIME_DIR", folder.path())
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("nomen starts");
        let mut out = child.stdout.take().expect("its output");
        let (mut greeting, mut buf) = (String::new(), [0; 4096]);
        while !greeting.contains("Stop with Ctrl-C") {
            let n = out.read(&mut buf).expect("its output");
            if n == 0 {
                assert_eq!(child.wait().expect("ended").code(), Some(3));
                let errors = fs::read_to_string(folder.path().join("errors")).expect("its errors");
                assert!(errors.contains("5300") && errors.contains("hint: see what it is"), "{errors}");
                return None;
            }
            greeting += &text(&buf[..n]);
        }
        Some(BuiltIn { child, folder, greeting })
    }

    /// Returns the output of `nomen query` for this name at the server, with these options.
    pub(crate) fn query(&self, name: &str, options: &[&str]) -> String {
        let time = format!("+time={}", TEST_TIMEOUT.as_secs());
        let words = ["query", name, "@127.0.0.1", "-p", "5300", "+tries=1", &time];
        text(&run(self.folder.path(), &[&words[..], options].concat()).stdout)
    }
}

impl Drop for BuiltIn {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a query for `name` (labels without dots inside) with this ID.
pub(crate) fn message(id: u16, name: &str, qtype: u16) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|l| !l.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a label"));
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend(qtype.to_be_bytes());
    out.extend([0, 1]);
    out
}
