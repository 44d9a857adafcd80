//! The manual is run: the blocks of its pages that are marked so, in order, in an empty folder.
//!
//! A block ```` ```LANGUAGE file=NAME ```` is written to a file. The lines of a block ```` ```console run ```` that begin with
//! `$ ` are commands, for a shell; what follows one are lines, or the beginnings of lines, that it must print in this order. A
//! command must succeed, unless `[exits with N]` is the last line after it. One that ends in `&` is a server: it is waited for until
//! it answers, and stopped at the end. 127.0.0.1 becomes an address of loopback that is this process's own.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::{PATIENCE, free_address, text};

/// A command, and what it must do.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    command: String,
    printed: Vec<String>,
    status: i32,
}

/// A block that is marked.
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

/// A folder in which a page is followed.
struct Reader {
    folder: TempDir,
    address: String,
    servers: Vec<Child>,
}

impl Reader {
    fn new() -> Reader {
        let folder = tempfile::tempdir().expect("a folder");
        Reader { folder, address: free_address().ip().to_string(), servers: Vec::new() }
    }

    fn own(&self, text: &str) -> String {
        text.replace("127.0.0.1", &self.address)
    }

    fn shell(&self, command: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_nomen")).parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.own(command)]).current_dir(self.folder.path());
        shell.env("PATH", format!("{}:{path}", program.display())).stdin(Stdio::null());
        for variable in ["NOTIFY_SOCKET", "XDG_RUNTIME_DIR", "STATE_DIRECTORY", "WATCHDOG_USEC"] {
            shell.env_remove(variable);
        }
        shell
    }

    fn serve(&mut self, command: &str) {
        let socket = self.folder.path().join(format!("ready{}", self.servers.len()));
        let notify = UnixDatagram::bind(&socket).expect("a socket");
        notify.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let log = fs::File::create(self.folder.path().join("log")).expect("a log");
        let mut shell = self.shell(&format!("exec {command}"));
        shell.env("NOTIFY_SOCKET", &socket).stdout(log.try_clone().expect("the log")).stderr(log);
        self.servers.push(shell.spawn().expect("started"));
        let mut buf = [0; 512];
        loop {
            let size = match notify.recv(&mut buf) {
                // A process that was stopped and goes on finds its wait interrupted.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                received => received.unwrap_or_else(|e| panic!("{command} is not ready: {e}")),
            };
            if text(&buf[..size]).lines().any(|line| line == "READY=1") {
                return;
            }
        }
    }

    fn follow(&mut self, page: &str, step: &Step) {
        if let Some(command) = step.command.strip_suffix(" &") {
            return self.serve(command);
        }
        let output = self.shell(&step.command).output().expect("a shell");
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(step.status), "{page}: {}\n{printed}", step.command);
        let mut lines = printed.lines();
        for wanted in &step.printed {
            let wanted = self.own(wanted);
            let found = lines.any(|line| line.starts_with(&wanted));
            assert!(found, "{page}: {}\nprints no line that begins with: {wanted}\n{printed}", step.command);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // It may have ended already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn blocks_are_read() {
    let page = "```sh\n$ no\n```\n```toml file=a.toml\nb = 1\n```\n```console run\n$ c | d\nout\n[exits with 3]\n$ e &\n```\n";
    let first = Step { command: "c | d".into(), printed: vec!["out".into()], status: 3 };
    let second = Step { command: "e &".into(), ..Step::default() };
    let expected = [Block::File("a.toml".into(), "b = 1\n".into()), Block::Steps(vec![first, second])];
    assert_eq!(blocks(page), expected);
}

/// The pages of the manual.
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

/// Pages one after the other: they take the same ports.
#[test]
fn what_the_manual_says_happens() {
    let mut followed = 0;
    for path in pages() {
        let page = name(&path);
        let mut reader = Reader::new();
        for block in blocks(&fs::read_to_string(&path).expect("a page")) {
            match block {
                Block::File(name, contents) => {
                    let at = reader.folder.path().join(name);
                    fs::create_dir_all(at.parent().expect("a folder")).expect("made");
                    fs::write(at, reader.own(&contents)).expect("written");
                }
                Block::Steps(steps) => {
                    followed += steps.len();
                    steps.iter().for_each(|step| reader.follow(&page, step));
                }
            }
        }
    }
    assert!(followed >= 15, "the manual has {followed} commands that can be run");
}
