//! `nomen update`: changes a zone by dynamic updates (RFC 2136), with a script in the language of nsupdate.
//! `script` parses the language; `send` builds and sends the messages.

pub mod script;
pub mod send;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::UpdateArgs;
use crate::query::options::read_tls;
use crate::query::words::Wanted;
use crate::signing;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};
use config::report::{ConfigTexts, Diagnostic};
use message::print;
use script::{ScriptCommand, ScriptReader};
use send::{Sender, UpdateOutcome};
use wording::reason;

/// Runs the verb; returns the exit code.
pub fn run(args: &UpdateArgs) -> u8 {
    let key = match signing::key(&args.key) {
        Ok(key) => key,
        Err(fault) => {
            eprintln!("nomen: {fault}");
            return fault.exit_code();
        }
    };
    let (file, how) = match words(args) {
        Ok(read) => read,
        Err(fault) => {
            eprintln!("nomen: {fault}");
            return EXIT_USAGE;
        }
    };
    let mut session = Session { sender: Sender::new(key, how), json: args.json, code: EXIT_OK };
    if let Some(server) = &args.server
        && let Err(fault) = session.sender.set_server(server)
    {
        eprintln!("nomen: {fault}");
        return EXIT_USAGE;
    }
    match file {
        None if io::stdin().is_terminal() => interactive(session),
        None => match io::read_to_string(io::stdin()) {
            Ok(text) => whole(session, Path::new("standard input"), text),
            Err(e) => outside(&format!("cannot read standard input: {}", reason(&e))),
        },
        Some(path) => match fs::File::open(&path).and_then(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        }) {
            Ok(text) => whole(session, &path, text),
            Err(e) => outside(&format!("cannot read {}: {}", path.display(), reason(&e))),
        },
    }
}

/// Returns the file of the script, if there is one, and the options of the exchange.
fn words(args: &UpdateArgs) -> Result<(Option<PathBuf>, Wanted), String> {
    let time = Duration::from_secs(args.timeout);
    let (mut file, mut how) = (None, Wanted { tcp: args.tcp, time, ..Wanted::default() });
    for word in &args.words {
        match word.strip_prefix('+') {
            Some(option) => read_tls(&mut how, option).map_err(|fault| fault.to_string())?,
            None if file.is_some() => return Err(format!("`{word}`: there is one script at most")),
            None => file = Some(PathBuf::from(word)),
        }
    }
    Ok((file, how))
}

fn outside(message: &str) -> u8 {
    eprintln!("nomen: {message}");
    EXIT_OUTSIDE
}

/// Runs a complete script: sends nothing if any line has a fault.
fn whole(mut session: Session, path: &Path, text: String) -> u8 {
    let mut texts = ConfigTexts::default();
    let source = texts.add(path, text.clone());
    let mut reader = ScriptReader::default();
    let (mut commands, mut faults, mut start) = (Vec::new(), Vec::<Diagnostic>::new(), 0);
    // Text after the last line feed is a line only if it is not empty.
    for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
        match reader.line(source, &text, start..start + line.len()) {
            Ok(command) => commands.extend(command),
            Err(fault) => faults.push(fault),
        }
        start += line.len() + 1;
    }
    if !faults.is_empty() {
        eprint!("{}", texts.render(&faults));
        return EXIT_FAULTS;
    }
    for command in commands {
        if !session.run(command) {
            return session.code;
        }
    }
    session.run(ScriptCommand::Send);
    session.code
}

/// Runs lines from a terminal: each is executed at once, and one with a fault changes nothing.
fn interactive(mut session: Session) -> u8 {
    let mut reader = ScriptReader::default();
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let Ok(line) = line else { break };
        let mut texts = ConfigTexts::default();
        let source = texts.add(format!("line {}", number + 1), line.clone());
        match reader.line(source, &line, 0..line.len()) {
            Ok(command) => {
                if command.is_some_and(|command| !session.run(command)) {
                    return session.code;
                }
            }
            Err(fault) => {
                eprint!("{}", texts.render(&[fault]));
                session.code = session.code.max(EXIT_FAULTS);
            }
        }
    }
    session.run(ScriptCommand::Send);
    session.code
}

/// The state of a running script.
struct Session {
    sender: Sender,
    json: bool,
    /// The worst exit code so far.
    code: u8,
}

impl Session {
    /// Executes a command. Returns whether to continue.
    fn run(&mut self, command: ScriptCommand) -> bool {
        match command {
            ScriptCommand::Server(text) => {
                if let Err(fault) = self.sender.set_server(&text) {
                    return self.fail(EXIT_FAULTS, &fault.to_string());
                }
            }
            ScriptCommand::Zone(name) => self.sender.zone = Some(name),
            ScriptCommand::Class(class) => self.sender.class = class,
            ScriptCommand::Key(key) => self.sender.key = Some(key),
            ScriptCommand::Record(record) => self.sender.records.push(record),
            ScriptCommand::Show => match self.sender.message().map(|message| print::full(&message)) {
                Ok(Ok(text)) => say!(";; Outgoing update:\n{text}"),
                _ => eprintln!("nomen: the update does not fit into a message"),
            },
            ScriptCommand::Send => return self.send(),
            ScriptCommand::Answer => match self.sender.answer.as_deref().map(print::full) {
                Some(Ok(text)) => say!(";; Answer:\n{text}"),
                _ => say!(";; no answer yet"),
            },
            ScriptCommand::Quit => return false,
            ScriptCommand::Ignored(why) => eprintln!("nomen: {why}"),
        }
        true
    }

    /// Sends the collected records. A refusal does not end the script; a missing answer does.
    fn send(&mut self) -> bool {
        let outcome = match self.sender.send() {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return true,
            Err(fault) => return self.fail(fault.code(), &fault.to_string()),
        };
        if self.json {
            match outcome.json() {
                Ok(answer) => say!("{answer}"),
                Err(_) => return self.fail(EXIT_OUTSIDE, "the answer is malformed"),
            }
        }
        let UpdateOutcome { zone, server, rcode, .. } = &outcome;
        if outcome.is_refused() {
            eprintln!("nomen: update of {zone} at {server}: {rcode}");
            self.code = self.code.max(EXIT_FAULTS);
        }
        true
    }

    fn fail(&mut self, code: u8, message: &str) -> bool {
        eprintln!("nomen: {message}");
        self.code = self.code.max(code);
        false
    }
}
