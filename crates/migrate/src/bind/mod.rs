//! named.conf, of BIND 9.16 to 9.20.

mod access;
mod acl;
mod encryption;
mod limits;
mod logging;
mod options;
mod outgoing;
mod policy;
mod signing;
mod views;
mod zones;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::addresses::AddressSet;
use crate::ledger::Coverage;
use crate::named_conf;
use crate::text::{SyntaxFault, Texts};
use crate::tree::Statement;
use crate::work::{Work, domain};
use acl::Acls;

/// Definitions that other parts of the file refer to.
#[derive(Clone)]
pub(crate) struct Frame<'t> {
    acls: Acls<'t>,
    /// Lists of servers by name.
    servers: HashMap<String, &'t Statement>,
    /// Lists of servers of parents by name.
    agents: HashMap<String, &'t Statement>,
    /// `dnssec-policy` clauses by name.
    policies: HashMap<String, &'t Statement>,
    /// `tls` blocks by name.
    tls: HashMap<String, &'t Statement>,
    /// `http` blocks by name.
    http: HashMap<String, &'t Statement>,
    /// Key names by server.
    server_keys: HashMap<String, String>,
    /// Names of keys with several secrets.
    unclear_keys: Vec<String>,
    /// The folder for relative paths.
    directory: PathBuf,
    /// Whether trust anchors are written.
    anchored: bool,
    /// Whether there are views, none of which has recursion here.
    split: bool,
    /// `options`, and the view if there is one: defaults for zones.
    scopes: Vec<&'t Statement>,
    /// The view of the zones, by its name in nomen.
    view: Option<String>,
    /// Whether the zones are in a view whose clients do not recurse here.
    aside: bool,
    /// The views by their names, with those in nomen.
    view_names: Vec<(String, Option<String>)>,
    /// With views, the clients that may recurse at each place, and whether these are all.
    recursing: Option<([AddressSet; 3], bool)>,
}

impl Frame<'_> {
    /// The global statement with this keyword, from the innermost block.
    fn global(&self, key: &str) -> Option<&Statement> {
        self.scopes.iter().rev().find_map(|scope| scope.find(key))
    }

    /// The statement that applies to a zone: its own, otherwise the global one.
    fn deciding<'s>(&'s self, zone: &'s Statement, key: &str) -> Option<&'s Statement> {
        zone.find(key).or_else(|| self.global(key))
    }

    /// Whether there is recursion for the clients of the zones.
    fn recurses(&self, work: &Work) -> bool {
        work.nomen.resolver.is_some() && !self.aside
    }
}

/// Whether a list is `{ none; }`, or empty.
fn is_none(list: &Statement) -> bool {
    list.block().first().is_none_or(|first| first.key() == "none")
}

/// Converts a configuration.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let parsed = named_conf::parse(texts, path, &base)?;
    for include in &parsed.includes {
        work.ledger.translated(include, "its statements, as if they stood here");
    }
    let directory = parsed.directory.unwrap_or(base);
    statements(work, &parsed.statements, directory);
    work.ledger.sweep(&parsed.statements, &options::explain);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(&parsed.statements), 0);
    Ok(())
}

fn statements(work: &mut Work, all: &[Statement], directory: PathBuf) {
    let mut frame = Frame {
        acls: HashMap::new(),
        servers: HashMap::new(),
        agents: HashMap::new(),
        policies: HashMap::new(),
        tls: HashMap::new(),
        http: HashMap::new(),
        server_keys: HashMap::new(),
        unclear_keys: unclear_keys(all),
        directory,
        anchored: false,
        split: false,
        scopes: all.iter().filter(|statement| statement.key() == "options").collect(),
        view: None,
        aside: false,
        view_names: Vec::new(),
        recursing: None,
    };
    collect(work, all, &mut frame);
    access::blackhole(work, &frame);
    limits::convert(work, &frame, all);
    let (views, mut zones): (Vec<&Statement>, Vec<&Statement>) = {
        let of = |key: &str| all.iter().filter(|statement| statement.key() == key).collect();
        (of("view"), of("zone"))
    };
    // A client belongs to the first view that matches it, so views after one for all clients are never used.
    let views = views::of_class_in(work, views);
    let mut is_split = false;
    match views.split_first() {
        Some((view, rest)) if zones.is_empty() && for_everybody(view) => {
            work.ledger.open(view);
            let words = "a view for all clients: its statements, as if there were none";
            work.ledger.part(&view.span, &view.title(), Coverage::Translated, words);
            collect(work, view.block(), &mut frame);
            zones.extend(view.block().iter().filter(|statement| statement.key() == "zone"));
            frame.scopes.push(view);
            let why = format!("no client reaches it: all are in view {}", view.value());
            rest.iter().for_each(|view| work.ledger.unneeded(view, why.clone()));
        }
        Some(_) => {
            is_split = true;
            frame = views::convert(work, &frame, &views);
            // BIND refuses zones outside views, if there are any.
            let why = "it is in no view: BIND does not start with it";
            zones.drain(..).for_each(|zone| work.ledger.missing(zone, why));
        }
        None => {}
    }
    if !is_split {
        options::options(work, &frame);
        for zone in zones {
            zones::zone(work, &frame, zone);
        }
        zones::catalogs(work, &frame);
        policy::response_policy(work, &frame);
    }
    options::finish(work, &frame);
    for statement in all {
        options::top(work, &frame, statement);
    }
    options::per_zone(work, &frame);
}

/// Keys that have another secret or algorithm in another view: nomen has one key of a name.
fn unclear_keys(all: &[Statement]) -> Vec<String> {
    let views = all.iter().filter(|statement| statement.key() == "view").flat_map(Statement::block);
    let mut found: HashMap<String, [&str; 2]> = HashMap::new();
    let mut unclear = Vec::new();
    for key in all.iter().chain(views).filter(|statement| statement.key() == "key") {
        let Some(name) = domain(key.value()) else { continue };
        let own = ["algorithm", "secret"].map(|part| key.find(part).map_or("", Statement::value));
        if *found.entry(name.clone()).or_insert(own) != own {
            unclear.push(name);
        }
    }
    unclear
}

fn is_of_other_class(view: &&Statement) -> bool {
    view.argument(1).is_some_and(|class| !class.text.eq_ignore_ascii_case("in"))
}

/// Whether a view is for all clients.
fn for_everybody(view: &Statement) -> bool {
    let limits = ["match-clients", "match-destinations", "match-recursive-only"];
    let any = |limit: &Statement| {
        limit.block().first().is_some_and(|first| first.key() == "any") || limit.value() == "no"
    };
    limits.iter().filter_map(|limit| view.find(limit)).all(any)
}

/// Collects lists, keys and servers, which statements anywhere may name, and whether there are trust anchors.
fn collect<'t>(work: &mut Work, all: &'t [Statement], frame: &mut Frame<'t>) {
    for statement in all {
        match statement.key() {
            "trust-anchors" | "managed-keys" | "trusted-keys" => frame.anchored = true,
            "acl" => {
                frame.acls.insert(statement.value().to_owned(), statement.block());
                work.ledger.translated(statement, "its members, wherever it is named");
            }
            "masters" | "primaries" | "remote-servers" => {
                frame.servers.insert(statement.value().to_owned(), statement);
                work.ledger.translated(statement, "its members, wherever it is named");
            }
            "parental-agents" if !statement.value().is_empty() => {
                frame.agents.insert(statement.value().to_owned(), statement);
                work.ledger.translated(statement, "its members, wherever it is named");
            }
            "dnssec-policy" if statement.blocks().next().is_some() => {
                frame.policies.insert(statement.value().to_owned(), statement);
            }
            "http" => drop(frame.http.insert(statement.value().to_owned(), statement)),
            "tls" => drop(frame.tls.insert(statement.value().to_owned(), statement)),
            "key" => {
                let get = |key| statement.find(key).map_or("", Statement::value);
                let (algorithm, secret) = (get("algorithm"), get("secret"));
                if domain(statement.value()).is_some_and(|name| frame.unclear_keys.contains(&name)) {
                    let why = "views have other keys of this name; nomen has one of a name: it is left out";
                    work.ledger.narrower(statement, why);
                    continue;
                }
                work.tsig_key(statement, statement.value(), algorithm, secret);
            }
            _ => {}
        }
    }
    for server in all.iter().filter(|statement| statement.key() == "server") {
        server_keys(work, server, frame);
    }
}

/// Converts `server ADDRESS { keys NAME; … };`.
fn server_keys(work: &mut Work, server: &Statement, frame: &mut Frame<'_>) {
    work.ledger.open(server);
    let address = server.value().parse::<std::net::IpAddr>();
    for statement in server.block() {
        if statement.key() != "keys" {
            work.ledger
                .missing(statement, "nomen has no settings of single servers; it finds out what they can");
            continue;
        }
        let name = match statement.block().first() {
            Some(first) => first.words().next(),
            None => statement.argument(0),
        };
        let key = name.and_then(|name| work.known_key(&name.span, &name.text));
        match (&address, key) {
            (Ok(address), Some(key)) => {
                frame.server_keys.insert(address.to_string(), key);
                work.ledger.translated(statement, "the key of this server, wherever it is named");
            }
            _ => work.ledger.missing(statement, "a key is for one server here, not for a network"),
        }
    }
}
