//! PostgreSQL for tests: a server of its own in a temporary folder, at a free port of 127.0.0.1 and a Unix
//! socket, with a database for each test. A process that watches a pipe from the test ends the server and
//! removes the folder, even if the test is killed. A missing PostgreSQL is a failure.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// The user of all databases, who may do everything.
pub const POSTGRES_USER: &str = "nomen";
/// Attempts to start a server, each at another port.
const STARTS: usize = 5;

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresStop {
    /// Connections are ended, and everything is written.
    Fast,
    /// Without writing anything, as a crash: the next start recovers.
    Immediate,
}

/// A server. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    watcher: Child,
}

/// A database of a server.
#[derive(Debug, Clone)]
pub struct PostgresDatabase {
    /// Its name.
    pub name: String,
    port: u16,
    folder: PathBuf,
}

/// Returns the folder of PostgreSQL's programs: Debian's newest version, or the first one of PATH.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder)| folder.join("postgres").is_file())
        .collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path).find(|folder| folder.join("postgres").is_file());
    let found = folders.pop().map(|(_, folder)| folder).or(of_path);
    found.expect("PostgreSQL is installed: the package `postgresql`")
}

/// Returns a command of PostgreSQL. The server refuses to run as root, so the user `postgres` runs it there.
fn command(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups"]).arg(program);
    command
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    uid == Some("0")
}

/// Runs a command to its end and returns its output; panics if it fails.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

/// Makes a folder that the server owns, and starts the process that removes it.
fn make_folder() -> (PathBuf, Child) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let number = COUNT.fetch_add(1, Relaxed);
    let name = format!("nomen-postgres-{}-{number}-{since}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let mut install = Command::new("install");
    install.args(["-d", "-m", "755"]);
    if is_root() {
        install.args(["-o", "postgres", "-g", "postgres"]);
    }
    run(install.arg(&folder));
    let script = format!(
        "read line; cd /; {0}/pg_ctl -D {1}/data -m immediate -w stop >/dev/null 2>&1; rm -rf {1}",
        programs().display(),
        folder.display()
    );
    // A group of its own: a signal to the group of the test does not end it.
    let watcher =
        command(Path::new("sh")).args(["-c", &script]).stdin(Stdio::piped()).process_group(0).spawn();
    (folder, watcher.expect("a process"))
}

impl PostgresServer {
    /// Returns the server that all tests of the process share. Its writes are not synced, which is faster.
    pub fn shared() -> &'static PostgresServer {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| PostgresServer::start(&["fsync=off"]))
    }

    /// Starts a server with these settings.
    pub fn start(settings: &[&str]) -> PostgresServer {
        Self::with_files(settings, &[])
    }

    /// Starts a server with these settings and files, by name and content; `{}` in a setting is their folder.
    pub fn with_files(settings: &[&str], files: &[(&str, &str)]) -> PostgresServer {
        let (folder, watcher) = make_folder();
        for (name, content) in files {
            let source = std::env::temp_dir().join(format!("{}-{name}", std::process::id()));
            fs::write(&source, content).expect("a file");
            let mut install = Command::new("install");
            install.args(["-m", "600"]);
            if is_root() {
                install.args(["-o", "postgres", "-g", "postgres"]);
            }
            run(install.arg(&source).arg(folder.join(name)));
            let _ = fs::remove_file(source);
        }
        let data = folder.join("data");
        run(command(&programs().join("initdb")).current_dir("/").args(["-D"]).arg(&data).args([
            "-U",
            POSTGRES_USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]));
        let place = folder.display().to_string();
        let settings = settings.iter().map(|setting| setting.replace("{}", &place)).collect();
        Self::begin(folder, watcher, settings)
    }

    fn begin(folder: PathBuf, watcher: Child, settings: Vec<String>) -> PostgresServer {
        let mut server = PostgresServer { folder, port: 0, settings, watcher };
        for attempt in 1..=STARTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
            server.port = free.expect("a free port").port();
            if server.try_start() {
                break;
            }
            // Another process may have taken the port.
            assert!(attempt < STARTS, "PostgreSQL does not start: {}", server.log());
        }
        server
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn pg_ctl(&self, arguments: &[&str]) -> Command {
        let mut pg_ctl = command(&programs().join("pg_ctl"));
        pg_ctl.current_dir("/").arg("-D").arg(self.folder.join("data")).args(arguments);
        pg_ctl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        pg_ctl
    }

    fn try_start(&self) -> bool {
        let mut options = format!("-k {} -h 127.0.0.1 -p {}", self.folder.display(), self.port);
        for setting in &self.settings {
            options += &format!(" -c {setting}");
        }
        let log = self.folder.join("log").display().to_string();
        let status = self.pg_ctl(&["-w", "-t", "60", "-l", &log, "-o", &options, "start"]).status();
        status.is_ok_and(|status| status.success())
    }

    /// Starts a server that was stopped, at the same port.
    pub fn start_again(&self) {
        assert!(self.try_start(), "PostgreSQL does not start again: {}", self.log());
    }

    /// From now on, connections over TCP need a password.
    pub fn require_passwords(&self) {
        let rules = "local all all trust\\nhost all all 127.0.0.1/32 scram-sha-256\\n";
        let script = format!("printf '{rules}' > {}/data/pg_hba.conf", self.folder.display());
        run(command(Path::new("sh")).current_dir("/").args(["-c", &script]));
        let status = self.pg_ctl(&["reload"]).status();
        assert!(status.is_ok_and(|status| status.success()), "no reload: {}", self.log());
    }

    /// Stops the server and waits for its end.
    pub fn stop(&self, how: PostgresStop) {
        let mode = match how {
            PostgresStop::Fast => "fast",
            PostgresStop::Immediate => "immediate",
        };
        let status = self.pg_ctl(&["-m", mode, "-w", "stop"]).status();
        assert!(status.is_ok_and(|status| status.success()), "PostgreSQL does not stop: {}", self.log());
    }

    /// Starts a replica of this server, which is read only.
    pub fn replica(&self) -> PostgresServer {
        let (folder, watcher) = make_folder();
        let mut backup = command(&programs().join("pg_basebackup"));
        backup.current_dir("/").args(["-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "-w", "-U"]);
        backup.arg(POSTGRES_USER).args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-D"]);
        run(backup.arg(folder.join("data")));
        Self::begin(folder, watcher, self.settings.clone())
    }

    /// Makes a replica a server of its own, which accepts writes.
    pub fn promote(&self) {
        let status = self.pg_ctl(&["-w", "promote"]).status();
        assert!(status.is_ok_and(|status| status.success()), "no promotion: {}", self.log());
    }

    /// The port at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes a database with a name of its own.
    pub fn database(&self) -> PostgresDatabase {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let database = self.existing(&format!("t{}", COUNT.fetch_add(1, Relaxed)));
        self.existing("postgres").sql(&format!("CREATE DATABASE {}", database.name));
        database
    }

    /// A database that is there.
    pub fn existing(&self, name: &str) -> PostgresDatabase {
        PostgresDatabase { name: name.to_owned(), port: self.port, folder: self.folder.clone() }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // The end of the pipe is the sign.
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

impl PostgresDatabase {
    /// The URL over TCP.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The URL at another port, such as that of a proxy.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgresql://{POSTGRES_USER}@127.0.0.1:{port}/{}", self.name)
    }

    /// The URL over the Unix socket.
    pub fn socket_url(&self) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgresql://{POSTGRES_USER}@{folder}:{}/{}", self.port, self.name)
    }

    fn psql(&self, sql: &str) -> Command {
        let mut psql = Command::new(programs().join("psql"));
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", POSTGRES_USER]);
        psql.args(["-p", &self.port.to_string(), "-d", &self.name, "-c", sql]);
        psql
    }

    /// Runs SQL and returns its rows, with `|` between columns; panics if it fails.
    pub fn sql(&self, sql: &str) -> String {
        run(&mut self.psql(sql)).trim_end().to_owned()
    }

    /// Runs SQL that must fail and returns the error.
    pub fn refused(&self, sql: &str) -> String {
        let output = self.psql(sql).stdin(Stdio::null()).output().expect("psql");
        assert!(!output.status.success(), "{sql} was accepted");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_goes_with_its_handle() {
        let server = PostgresServer::start(&["fsync=off"]);
        let database = server.database();
        assert_eq!(database.sql("SELECT 1 + 1"), "2");
        assert!(database.refused("SELECT nothing").contains("does not exist"));
        let folder = server.folder.clone();
        drop(server);
        assert!(!folder.exists());
    }
}
