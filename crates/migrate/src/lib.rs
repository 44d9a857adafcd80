//! Converts configurations of other DNS servers to nomen's.
//!
//! A parser reads the syntax into statements (`tree`), whose words and blocks have their positions. A module
//! for each program interprets its statements and fills one `model`, which `write` prints. The `ledger` has
//! an outcome for each statement: its new place, why nomen needs none, what differs, or what is missing. No
//! statement is without one.
//!
//! | module | does |
//! |---|---|
//! | `bind`, `nsd`, `knot`, `pdns`, `dnsdist`, `unbound`, `adguard`, `pihole` | interpret the statements |
//! | `named_conf`, `clauses`, `knot::yaml`, `pdns::settings`, `dnsdist::lua`, `yaml`, `toml` | parse the syntaxes |
//! | `upstream` | servers as AdGuard Home and Pi-hole name them |
//! | `nsd_unbound` | statements common to NSD and Unbound |
//! | `text`, `tree`, `files` | texts and positions, statements, the file system |
//! | `network`, `units` | client lists without refusals, numbers with units |
//! | `addresses`, `clients` | sets of addresses, client lists as `allow-query` |
//! | `anchors`, `dnstap`, `local_root` | trust anchors, dnstap, a copy of the root zone: common to several programs |
//! | `work`, `ledger` | the conversion in progress, the outcome of each statement |
//! | `narrow` | refuses what cannot be expressed exactly |
//! | `model`, `mend`, `write` | nomen's configuration, removal of contradictions, its text |
//! | `source_rates`, `rates` | limits on replies of other programs; `[rate-limits]` and secrets of cookies |
//! | `policy`, `lists` | response policy zones and block lists, common to several programs |
//! | `zone_files` | `$INCLUDE` with another base folder, custom root servers |
#![forbid(unsafe_code)]

mod addresses;
mod adguard;
mod anchors;
mod bind;
mod clauses;
mod clients;
mod dnsdist;
mod dnstap;
mod encrypted;
mod files;
mod knot;
mod ledger;
mod lists;
mod local_root;
mod mend;
mod model;
mod named_conf;
mod narrow;
mod network;
mod nsd;
mod nsd_unbound;
mod pdns;
mod pihole;
mod policy;
mod rates;
mod signing;
mod source_rates;
mod text;
mod toml;
mod tree;
mod unbound;
mod units;
mod upstream;
mod work;
mod write;
mod yaml;
mod zone_files;

use std::path::Path;

pub use files::{Files, OsFiles};
pub use ledger::{Account, Coverage};
pub use lists::ListFile;
pub use model::{BOUNDS, Measure, NumberLimits};
pub use signing::POLICY_TIMES;
pub use text::{SourceSpan, SourceText, SyntaxFault, SyntaxFaultKind};
pub use work::is_special;

use text::Texts;
use work::Work;

/// The program that a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerProgram {
    /// BIND's named.conf.
    Bind,
    /// NSD's nsd.conf.
    Nsd,
    /// Knot DNS's knot.conf.
    Knot,
    /// Unbound's unbound.conf.
    Unbound,
    /// PowerDNS Authoritative Server's pdns.conf.
    PowerDns,
    /// PowerDNS Recursor's recursor.conf.
    Recursor,
    /// dnsdist's dnsdist.conf or dnsdist.yml.
    Dnsdist,
    /// AdGuard Home's AdGuardHome.yaml.
    AdGuard,
    /// Pi-hole's pihole.toml or setupVars.conf.
    PiHole,
}

impl PeerProgram {
    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bind => "BIND",
            Self::Nsd => "NSD",
            Self::Knot => "Knot DNS",
            Self::Unbound => "Unbound",
            Self::PowerDns => "PowerDNS",
            Self::Recursor => "PowerDNS Recursor",
            Self::Dnsdist => "dnsdist",
            Self::AdGuard => "AdGuard Home",
            Self::PiHole => "Pi-hole",
        }
    }
}

/// A converted configuration.
#[derive(Debug)]
pub struct Converted {
    /// The program it was for.
    pub program: PeerProgram,
    /// nomen's configuration.
    pub toml: String,
    /// Lists that it names, which are not written.
    pub lists: Vec<ListFile>,
    /// The source texts, and zone files to which outcomes refer.
    pub texts: Vec<SourceText>,
    /// The outcome of each statement, in source order; differing defaults come last.
    pub accounts: Vec<Account>,
}

impl Converted {
    /// Whether any outcome is missing or narrower.
    pub fn is_less(&self) -> bool {
        ledger::is_less(&self.accounts)
    }
}

/// A configuration that cannot be parsed.
#[derive(Debug)]
pub struct Unreadable {
    /// The texts read so far.
    pub texts: Vec<SourceText>,
    /// The fault.
    pub fault: SyntaxFault,
}

/// Reads the configuration at `path` with all its includes, and converts it. Without `program`, the program
/// is recognised from the text. `lists` is the folder of the lists that it makes.
///
/// # Errors
/// [`Unreadable`], if a file cannot be read or is not such a configuration.
pub fn convert(
    path: &Path,
    program: Option<PeerProgram>,
    files: &dyn Files,
    lists: &Path,
) -> Result<Converted, Unreadable> {
    let mut texts = Texts::new(files);
    let mut work = Work::default();
    work.made_lists.folder = lists.to_owned();
    match run(&mut texts, path, program, &mut work) {
        Err(fault) => Err(Unreadable { texts: texts.all, fault }),
        Ok(program) => {
            finish(&mut texts, &mut work);
            let opening = format!(
                "Made by `nomen migrate` of {}, a configuration of {}.\nIt may hold secrets of keys: let no \
                 other user read it.\nRead what `nomen migrate` reported, then run `nomen check` on it.",
                path.display().to_string().replace(char::is_control, " "),
                program.name()
            );
            let toml = write::text(&work.nomen, &opening);
            let mut accounts = work.ledger.accounts;
            let place = |account: &Account| {
                account.span.as_ref().map_or((usize::MAX, 0), |span| (span.text, span.range.start))
            };
            accounts.sort_by_key(place);
            let names_none = work.nomen.policy_lists.is_empty() && work.nomen.policy_zones.is_empty();
            let lists = if names_none { Vec::new() } else { work.made_lists.files() };
            Ok(Converted { program, toml, lists, texts: texts.all, accounts })
        }
    }
}

/// Completes the conversion with steps that need all statements.
fn finish(texts: &mut Texts<'_>, work: &mut Work) {
    zone_files::hints(texts.files, work);
    anchors::write(work);
    zone_files::includes(texts, work);
    narrow::write(work);
    mend::mend(work);
}

fn run(
    texts: &mut Texts<'_>,
    path: &Path,
    program: Option<PeerProgram>,
    work: &mut Work,
) -> Result<PeerProgram, SyntaxFault> {
    let program = match program {
        // Both programs of PowerDNS have the same syntax.
        Some(known) if known != PeerProgram::PowerDns => known,
        wanted => {
            let number = texts.open(path, None)?;
            let text = texts.text(number);
            texts.close();
            texts.all.pop();
            let found = if wanted.is_some() { Some(powerdns(path, &text)) } else { recognise(path, &text) };
            found.ok_or(SyntaxFault { span: None, kind: SyntaxFaultKind::UnknownKind })?
        }
    };
    match program {
        PeerProgram::Bind => bind::convert(texts, path, work)?,
        PeerProgram::Nsd => nsd::convert(texts, path, work)?,
        PeerProgram::Knot => knot::convert(texts, path, work)?,
        PeerProgram::Unbound => unbound::convert(texts, path, work)?,
        PeerProgram::PowerDns => pdns::convert(texts, path, work)?,
        PeerProgram::Recursor => pdns::convert_recursor(texts, path, work)?,
        PeerProgram::Dnsdist => dnsdist::convert(texts, path, work)?,
        PeerProgram::AdGuard => adguard::convert(texts, path, work)?,
        PeerProgram::PiHole => pihole::convert(texts, path, work)?,
    }
    Ok(program)
}

/// Determines which of PowerDNS's two programs a text is for.
fn powerdns(path: &Path, text: &str) -> PeerProgram {
    let keys =
        text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key.trim().trim_end_matches('+'));
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().contains("recursor"));
    let mut keys = keys.map(str::to_owned);
    match named || keys.any(|key| pdns::ONLY_RECURSOR.contains(&key.as_str())) {
        true => PeerProgram::Recursor,
        false => PeerProgram::PowerDns,
    }
}

/// Keywords that only one of the programs with similar files has.
#[rustfmt::skip]
const SIGNS: [(PeerProgram, &[&str]); 3] = [
    (PeerProgram::Nsd, &["zonesdir", "request-xfr", "provide-xfr", "zonefile", "pattern", "include-pattern", "server-count", "zonelistfile", "log-only-syslog", "xfrdfile", "ip-address", "tcp-count", "zonefiles-check", "verify"]),
    (PeerProgram::Unbound, &["forward-zone", "stub-zone", "access-control", "local-zone", "local-data", "root-hints", "auto-trust-anchor-file", "include-toplevel", "num-threads", "module-config", "msg-cache-size", "do-daemonize", "forward-addr"]),
    (PeerProgram::Knot, &["listen", "rundir", "template", "storage", "remote", "acl", "domain", "udp-workers", "automatic-acl", "target", "database", "semantic-checks"]),
];

/// Recognises AdGuard Home and Pi-hole by lines that only their files have.
fn of_home(text: &str) -> Option<PeerProgram> {
    let begins = |start: &str| text.lines().any(|line| line.starts_with(start));
    if begins("schema_version:") || begins("user_rules:") || begins("whitelist_filters:") {
        return Some(PeerProgram::AdGuard);
    }
    let is_new = begins("[dns]") && (begins("  upstreams =") || begins("upstreams ="));
    (is_new || begins("PIHOLE_") || begins("BLOCKING_ENABLED=")).then_some(PeerProgram::PiHole)
}

/// Recognises the program from the lines of a text, or else from the file's name.
fn recognise(path: &Path, text: &str) -> Option<PeerProgram> {
    if let Some(found) = of_home(text) {
        return Some(found);
    }
    let is_named = path.file_name().is_some_and(|name| name.to_string_lossy().contains("dnsdist"));
    if is_named || dnsdist::is_script(text) || dnsdist::is_yaml(text) {
        return Some(PeerProgram::Dnsdist);
    }
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '/', '*']));
    let mut points: Vec<(PeerProgram, usize)> = SIGNS.iter().map(|(program, _)| (*program, 0)).collect();
    let (mut braces, mut equals) = (0, 0);
    for line in lines {
        let key: String =
            line.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
        let rest = line[key.len()..].trim_start();
        if line.ends_with(['{', ';', '}']) {
            braces += 1;
        } else if !key.is_empty() && (rest.starts_with('=') || rest.starts_with("+=")) {
            equals += 1;
        }
        let dash = line.starts_with("- ");
        let key = line.trim_start_matches("- ").split(':').next().unwrap_or_default();
        for ((program, signs), (_, points)) in SIGNS.iter().zip(&mut points) {
            let sign = signs.contains(&key) && line.contains(':');
            *points += usize::from(sign) + usize::from(dash && *program == PeerProgram::Knot);
        }
    }
    points.extend([(PeerProgram::Bind, braces), (PeerProgram::PowerDns, equals)]);
    let best = points.iter().map(|(_, points)| *points).max().unwrap_or(0);
    let mut best =
        points.iter().filter(|(_, points)| *points == best && best > 0).map(|(program, _)| *program);
    match (best.next(), best.next()) {
        (Some(PeerProgram::PowerDns), None) => Some(powerdns(path, text)),
        (Some(program), None) => Some(program),
        _ => {
            let name = path.file_name()?.to_string_lossy().into_owned();
            let names = [
                ("named", PeerProgram::Bind),
                ("nsd", PeerProgram::Nsd),
                ("knot", PeerProgram::Knot),
                ("unbound", PeerProgram::Unbound),
                ("pdns", PeerProgram::PowerDns),
                ("recursor", PeerProgram::Recursor),
                ("AdGuard", PeerProgram::AdGuard),
                ("pihole", PeerProgram::PiHole),
                ("setupVars", PeerProgram::PiHole),
            ];
            names.iter().find(|(word, _)| name.contains(word)).map(|(_, program)| *program)
        }
    }
}

#[cfg(test)]
mod tests;
