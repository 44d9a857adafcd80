//! A `nomen serve` in a folder of its own, which tells over its notification socket when it is ready.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Longest wait for anything, far above what anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Minimal records at a zone's name.
pub(crate) const APEX: &str =
    "$TTL 60\n@ SOA ns1 admin 1 3600 600 86400 60\n@ NS ns1\n@ NS ns2\nns1 A 192.0.2.1\nns2 A 192.0.2.2\n";

/// The program.
pub(crate) fn nomen(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nomen"));
    command
        .args(arguments)
        .env_remove("NOTIFY_SOCKET")
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("STATE_DIRECTORY");
    command
}

/// Runs the program to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    nomen(arguments).current_dir(folder).output().expect("nomen runs")
}

/// What a program printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A port that is free for UDP and TCP on loopback, for as long as nobody else takes it.
pub(crate) fn free_port() -> u16 {
    for _ in 0..100 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a TCP port");
        let port = tcp.local_addr().expect("its address").port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free for both UDP and TCP");
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    /// Its folder: configuration, zones, control socket, log.
    pub(crate) folder: TempDir,
    /// Where it answers.
    pub(crate) address: SocketAddr,
    child: Child,
    notify: UnixDatagram,
}

impl Server {
    /// Starts a server for zone `example.` with this text, and more configuration.
    pub(crate) fn start(zone: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("example.zone"), zone).expect("written");
        Self::start_in(folder, more, &[])
    }

    /// Starts a server in a prepared folder, which gets the configuration.
    pub(crate) fn start_in(folder: TempDir, more: &str, arguments: &[&str]) -> Self {
        Self::start_with(folder, "", more, arguments)
    }

    /// The same with more keys for `[server]`.
    pub(crate) fn start_with(folder: TempDir, keys: &str, more: &str, arguments: &[&str]) -> Self {
        let port = free_port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let config = format!(
            "[server]\nworkers = 2\n{keys}[[listen]]\naddr = [\"127.0.0.1@{port}\"]\n[control]\nsocket = \"ctl.sock\"\n\
             [template.folder]\ndirectory = \".\"\n{more}"
        );
        fs::write(folder.path().join("nomen.toml"), config).expect("written");
        let notify_path = folder.path().join("notify.sock");
        // From an earlier server in the same folder.
        let _ = fs::remove_file(&notify_path);
        let notify = UnixDatagram::bind(&notify_path).expect("a notification socket");
        notify.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        let mut all = vec!["serve", "--config", "nomen.toml"];
        all.extend(arguments);
        let child = nomen(&all)
            .current_dir(folder.path())
            .env("NOTIFY_SOCKET", &notify_path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log"))
            .stderr(log)
            .spawn()
            .expect("nomen starts");
        let server = Self { folder, address, child, notify };
        server.wait_for("READY=1");
        server
    }

    /// Waits until the server has told its state.
    pub(crate) fn wait_for(&self, state: &str) {
        let mut buf = [0; 512];
        loop {
            let told =
                self.notify.recv(&mut buf).unwrap_or_else(|e| panic!("no {state}: {e}\n{}", self.log()));
            if text(&buf[..told]).lines().any(|line| line == state) {
                return;
            }
        }
    }

    /// Everything logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// A path in the server's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as editors do: a new one moved over it.
    pub(crate) fn write(&self, name: &str, contents: &str) {
        let fresh = self.path("fresh");
        fs::write(&fresh, contents).expect("written");
        fs::rename(fresh, self.path(name)).expect("moved");
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("the server is there");
    }

    /// Reloads and waits for the end of it.
    pub(crate) fn reload(&self) {
        self.signal(Signal::SIGHUP);
        self.wait_for("RELOADING=1");
        self.wait_for("READY=1");
    }

    /// Runs `nomen ctl`.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        let mut all = vec!["ctl", "--socket", "ctl.sock"];
        all.extend(arguments);
        run(self.folder.path(), &all)
    }

    /// Runs `nomen query` and returns what it printed.
    pub(crate) fn query(&self, words: &[&str]) -> String {
        let server = format!("@{}@{}", self.address.ip(), self.address.port());
        let mut all = vec!["query", &server];
        all.extend(words);
        let output = run(self.folder.path(), &all);
        text(&output.stdout) + &text(&output.stderr)
    }

    /// Stops the server and gives its folder, for another one to start in.
    pub(crate) fn stop(mut self) -> TempDir {
        self.signal(Signal::SIGTERM);
        assert!(self.wait().success(), "{}", self.log());
        let empty = tempfile::tempdir().expect("a folder");
        std::mem::replace(&mut self.folder, empty)
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < until, "the server does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A query for `name` (labels without dots inside) with this ID.
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
