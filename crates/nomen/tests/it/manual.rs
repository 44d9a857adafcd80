//! Runs the manual: the marked blocks of its pages, in order, in an empty folder.
//!
//! A block ```` ```LANGUAGE file=NAME ```` is written to a file. The lines of a block ```` ```console run
//! ```` that begin with `$ ` are shell commands; the lines after a command are lines, or beginnings of lines,
//! that it must print in this order. A command must succeed, unless `[exits with N]` is the last line after
//! it. One that ends in `&` is a server: the test waits until nomen answers, and stops all servers at the
//! end. `nomen query` is repeated until it prints the expected lines, as its answer may come from other
//! servers. A page ends at the first server that is not installed. 127.0.0.1 is replaced by a loopback
//! address of this process; BIND would not listen there, so on a page with other servers the ports are
//! replaced by free ones.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{TEST_TIMEOUT, free_address, text};

/// A command, and its expected result.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    command: String,
    printed: Vec<String>,
    status: i32,
}

/// A marked block.
#[derive(Debug, PartialEq, Eq)]
enum Block {
    File(String, String),
    Steps(Vec<Step>),
}

fn steps(lines: &[&str]) -> Vec<Step> {
    let mut steps = Vec::<Step>::new();
    for line in lines {
        let status = line.strip_prefix("[exits with ").and_then(|rest| rest.strip_suffix(']'));
        match (line.strip_prefix("$ "), status, steps.last_mut()) {
            (Some(command), _, _) => steps.push(Step { command: command.into(), ..Step::default() }),
            (None, Some(status), Some(step)) => step.status = status.parse().expect("a status"),
            (None, None, Some(step)) => step.printed.push((*line).into()),
            (None, _, None) => panic!("output without a command: {line}"),
        }
    }
    steps
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut lines) = (Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
        let words: Vec<&str> = info.split(' ').collect();
        match words.as_slice() {
            ["console", "run"] => blocks.push(Block::Steps(steps(&inside))),
            [_, file] if file.starts_with("file=") => {
                blocks.push(Block::File(file["file=".len()..].into(), inside.join("\n") + "\n"));
            }
            _ => {}
        }
    }
    blocks
}

/// The ports on pages with other servers.
const PORTS: [&str; 3] = ["10053", "10054", "10055"];

/// A folder in which a page is run.
struct Reader {
    folder: TempDir,
    /// Texts of the page, and their replacements.
    own: Vec<(&'static str, String)>,
    servers: Vec<Child>,
}

impl Reader {
    /// Creates a reader of a page, with other servers or without.
    fn new(others: bool) -> Reader {
        let free: Vec<TcpListener> =
            PORTS.iter().map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports = free.iter().map(|free| free.local_addr().expect("bound").port().to_string());
        let own = match others {
            true => PORTS.into_iter().zip(ports).collect(),
            false => vec![("127.0.0.1", free_address().ip().to_string())],
        };
        Reader { folder: tempfile::tempdir().expect("a folder"), own, servers: Vec::new() }
    }

    fn own(&self, text: &str) -> String {
        self.own.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    fn shell(&self, command: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_nomen")).parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.own(command)]).current_dir(self.folder.path());
        // Other servers may be in folders that are only in root's PATH.
        shell.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", program.display())).stdin(Stdio::null());
        for variable in ["NOTIFY_SOCKET", "XDG_RUNTIME_DIR", "STATE_DIRECTORY", "WATCHDOG_USEC"] {
            shell.env_remove(variable);
        }
        shell
    }

    fn serve(&mut self, command: &str) {
        let socket = self.folder.path().join(format!("ready{}", self.servers.len()));
        let notify = UnixDatagram::bind(&socket).expect("a socket");
        notify.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let log = self.folder.path().join(format!("log{}", self.servers.len()));
        let log = fs::File::create(log).expect("a log");
        let mut shell = self.shell(&format!("exec {command}"));
        shell.env("NOTIFY_SOCKET", &socket).stdout(log.try_clone().expect("the log")).stderr(log);
        self.servers.push(shell.spawn().expect("started"));
        if !is_ours(command) {
            return;
        }
        let mut buf = [0; 512];
        loop {
            let size = match notify.recv(&mut buf) {
                // A process that was stopped and continued has its wait interrupted.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                received => received.unwrap_or_else(|e| panic!("{command} is not ready: {e}")),
            };
            if text(&buf[..size]).lines().any(|line| line == "READY=1") {
                return;
            }
        }
    }

    /// Runs a step; returns whether the next one can be run.
    fn follow(&mut self, page: &str, step: &Step) -> bool {
        let program = step.command.split(' ').next().unwrap_or_default();
        let is_here = self.shell(&format!("command -v {program}")).output().is_ok_and(|o| o.status.success());
        if !is_here {
            testkit::left_out(&format!("{page} is not followed further: {program} is not installed"));
            return false;
        }
        if let Some(command) = step.command.strip_suffix(" &") {
            self.serve(command);
            return true;
        }
        let until = Instant::now() + TEST_TIMEOUT;
        loop {
            match self.outcome(step) {
                Ok(()) => return true,
                Err(fault) if !step.command.starts_with("nomen query ") || Instant::now() >= until => {
                    panic!("{page}: {}\n{fault}\n{}", step.command, self.logs());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Runs a command; the error is how it differs from the page.
    fn outcome(&self, step: &Step) -> Result<(), String> {
        let output = self.shell(&step.command).output().expect("a shell");
        let printed = text(&output.stdout) + &text(&output.stderr);
        if output.status.code() != Some(step.status) {
            return Err(format!("exits with {:?}\n{printed}", output.status.code()));
        }
        let mut lines = printed.lines();
        for wanted in &step.printed {
            let wanted = self.own(wanted);
            if !lines.any(|line| line.starts_with(&wanted)) {
                return Err(format!("prints no line that begins with: {wanted}\n{printed}"));
            }
        }
        Ok(())
    }

    /// Returns the logs of the servers.
    fn logs(&self) -> String {
        let log = |n| fs::read_to_string(self.folder.path().join(format!("log{n}"))).unwrap_or_default();
        (0..self.servers.len()).map(log).collect()
    }
}

/// Whether a command runs nomen.
fn is_ours(command: &str) -> bool {
    command.split(' ').next() == Some("nomen")
}

impl Drop for Reader {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // It may have exited already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn blocks_are_read() {
    let page = "```sh\n$ no\n```\n```toml file=a.toml\nb = 1\n```\n```console run\n$ c | d\nout\n\
                [exits with 3]\n$ e &\n```\n";
    let first = Step { command: "c | d".into(), printed: vec!["out".into()], status: 3 };
    let second = Step { command: "e &".into(), ..Step::default() };
    let expected = [Block::File("a.toml".into(), "b = 1\n".into()), Block::Steps(vec![first, second])];
    assert_eq!(blocks(page), expected);
}

/// Returns the pages of the manual.
fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut paths: Vec<_> =
        fs::read_dir(docs).expect("the manual").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn the_summary_lists_every_page() {
    let all = pages();
    let summary = all.iter().find(|path| name(path) == "SUMMARY.md").expect("a summary");
    let summary = fs::read_to_string(summary).expect("a page");
    for page in all.iter().map(|path| name(path)).filter(|page| page != "SUMMARY.md") {
        assert_eq!(summary.matches(&format!("]({page})\n")).count(), 1, "{page}");
    }
}

/// As a book, and in packages, the manual exists without the source tree.
#[test]
fn links_of_the_manual_lead_to_its_pages() {
    let mut all: Vec<String> = pages().iter().map(|path| name(path)).chain(["status.png".into()]).collect();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let images = fs::read_dir(images).expect("the pictures").flatten();
    all.extend(images.map(|image| format!("images/{}", name(&image.path()))));
    for path in pages() {
        let text = fs::read_to_string(&path).expect("a page");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let page = target.split('#').next().unwrap_or_default();
            let known = page.is_empty() || page.starts_with("https://") || all.iter().any(|one| one == page);
            assert!(known, "{}: {target} is no page of the manual", name(&path));
        }
    }
}

/// Without a socket of its own, a server of the manual would not start beside another one of the same machine.
#[test]
fn servers_of_the_manual_have_a_control_socket_in_their_folder() {
    let mut servers = 0;
    for path in pages() {
        let blocks = blocks(&fs::read_to_string(&path).expect("a page"));
        let file = |wanted: &str| {
            blocks.iter().find_map(|block| match block {
                Block::File(name, contents) if name == wanted => Some(contents),
                _ => None,
            })
        };
        let steps = blocks.iter().flat_map(|block| match block {
            Block::Steps(steps) => steps.as_slice(),
            Block::File(..) => &[],
        });
        for command in steps.filter_map(|step| step.command.strip_suffix(" &")).filter(|one| is_ours(one)) {
            let config = command.split(' ').next_back().and_then(file);
            let config = config.unwrap_or_else(|| panic!("{}: no file of {command}", name(&path)));
            assert!(config.contains("[control]\nsocket = "), "{}: {command}", name(&path));
            servers += 1;
        }
    }
    assert!(servers >= 5, "{servers} servers");
}

/// Runs one page after the other: they use the same ports.
#[test]
fn what_the_manual_says_happens() {
    let mut followed = 0;
    for path in pages() {
        let page = name(&path);
        let blocks = blocks(&fs::read_to_string(&path).expect("a page"));
        let is_other = |step: &Step| step.command.ends_with(" &") && !is_ours(&step.command);
        let others = |block: &Block| matches!(block, Block::Steps(steps) if steps.iter().any(is_other));
        let (mut reader, mut goes_on) = (Reader::new(blocks.iter().any(others)), true);
        for block in blocks {
            match block {
                Block::File(name, contents) => {
                    let at = reader.folder.path().join(name);
                    fs::create_dir_all(at.parent().expect("a folder")).expect("made");
                    fs::write(at, reader.own(&contents)).expect("written");
                }
                Block::Steps(steps) => {
                    followed += steps.len();
                    goes_on = goes_on && steps.iter().all(|step| reader.follow(&page, step));
                }
            }
        }
    }
    assert!(followed >= 15, "the manual has {followed} commands that can be run");
}
