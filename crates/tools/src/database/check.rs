//! `nomen database check`: whether a node can use the database, and which zones it would not serve.

use std::sync::Arc;

use ::database::{DatabaseAdmin, DatabaseNode, ListedZone, SectionSet};
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use serde_json::json;
use wire::ZoneName;
use wording::rfc3339;
use zone::Zone;

use super::Failure;
use super::args::DatabaseCheckArgs;
use super::progress::ZoneProgress;
use super::sections;
use super::target::{OpenDatabase, open};

/// What was found.
struct Checked<'a> {
    args: &'a DatabaseCheckArgs,
    host: String,
    /// Version of the server.
    server: String,
    /// The tables, in words.
    tables: String,
    zones: u64,
    records: u64,
    sections: u64,
    last_change: i64,
    nodes: Vec<DatabaseNode>,
    faults: Vec<String>,
    warnings: Vec<String>,
}

/// Runs the verb.
pub(super) fn check(args: &DatabaseCheckArgs) -> Result<u8, Failure> {
    let mut database = open(&args.target, args.schema)?;
    let mut checked = Checked {
        args,
        host: database.host(),
        server: String::new(),
        tables: String::new(),
        zones: 0,
        records: 0,
        sections: 0,
        last_change: 0,
        nodes: Vec::new(),
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    let has_tables = match &mut database {
        OpenDatabase::Own(admin) => {
            let has_tables = checked.tables_of_nomen(admin).map_err(outside)?;
            if has_tables {
                checked.all_sections(&admin.sections().map_err(outside)?)?;
            }
            has_tables
        }
        OpenDatabase::PowerDns(reader) => {
            checked.server = reader.server().to_owned();
            checked.tables = "the tables of PowerDNS".into();
            let edited = reader.with_edited_serials().map_err(outside)?;
            let note = |name| {
                format!(
                    "zone {name}.: the serial is that of its row; PowerDNS answers with another one (SOA-EDIT)"
                )
            };
            edited.into_iter().map(note).for_each(|warning| checked.warn(warning));
            true
        }
    };
    if has_tables {
        let zones = database.zones()?;
        if let OpenDatabase::PowerDns(reader) = &database
            && reader.misnamed() > 0
        {
            checked.fault(format!("{} domains have no usable name, or the same one", reader.misnamed()));
        }
        checked.all_zones(&database, &zones)?;
    }
    Ok(checked.end())
}

fn outside(fault: String) -> Failure {
    (format!("nomen: {fault}"), EXIT_OUTSIDE)
}

impl Checked<'_> {
    fn fault(&mut self, fault: String) {
        if !self.args.json {
            eprintln!("error: {fault}");
        }
        self.faults.push(fault);
    }

    fn warn(&mut self, warning: String) {
        if !self.args.json {
            eprintln!("warning: {warning}");
        }
        self.warnings.push(warning);
    }

    /// Checks schema, privileges and nodes. Returns whether there are zones to check.
    fn tables_of_nomen(&mut self, admin: &DatabaseAdmin) -> Result<bool, String> {
        self.server = admin.server().to_owned();
        let report = admin.compare_schema()?;
        self.tables = report
            .version
            .map_or("no tables of nomen".into(), |version| format!("schema nomen, version {version}"));
        if let Err(why) = admin.is_usable() {
            self.fault(why);
            return Ok(false);
        }
        report.differences.into_iter().for_each(|differs| self.fault(differs));
        let missing = admin.missing_privileges()?;
        missing.into_iter().for_each(|missing| self.fault(format!("the role lacks the privilege {missing}")));
        (self.nodes, self.last_change) = (admin.nodes()?, admin.last_change()?);
        Ok(true)
    }

    /// Checks the sections of the configuration.
    fn all_sections(&mut self, set: &SectionSet) -> Result<(), Failure> {
        self.sections = set.sections.len() as u64;
        let target = &self.args.target;
        let config = target.has_config().then_some(target.config.as_path());
        sections::faults(set, config)?.into_iter().for_each(|fault| self.fault(fault));
        Ok(())
    }

    /// Reads all zones.
    fn all_zones(&mut self, database: &OpenDatabase, zones: &[ListedZone]) -> Result<(), Failure> {
        let mut progress = ZoneProgress::new("checking", zones.len());
        let mut listed = zones.iter();
        let (mut faults, mut records) = (Vec::new(), 0);
        let is_json = self.args.json;
        let read = database.contents(zones, &mut |apex, zone| {
            // Zones come in the order of the list; those that were removed meanwhile are left out.
            let listed = listed.find(|listed| listed.apex == *apex);
            records += zone.as_ref().map_or(0, |zone| zone.record_count());
            let is_own = matches!(database, OpenDatabase::Own(_));
            if let Some(fault) = fault_of(apex, zone, listed.filter(|_| is_own)) {
                if !is_json {
                    progress.report(&format!("error: {fault}"));
                }
                faults.push(fault);
            }
            progress.step();
        });
        drop(progress);
        (self.zones, self.records) = (zones.len() as u64, records);
        self.faults.extend(faults);
        read
    }

    /// Prints the result; returns the exit code.
    fn end(self) -> u8 {
        match self.args.json {
            true => say!("{:#}", self.as_json()),
            false => self.print(),
        }
        if self.faults.is_empty() { EXIT_OK } else { EXIT_FAULTS }
    }

    fn as_json(&self) -> serde_json::Value {
        let node = |node: &DatabaseNode| {
            json!({
                "name": node.name,
                "seen": rfc3339(node.seen),
                "age_seconds": node.age.as_secs_f64(),
                "change": node.change,
                "behind": self.last_change - node.change,
                "zones": node.zones,
                "version": node.version,
                "address": node.address.map(|address| address.to_string()),
            })
        };
        json!({
            "database": self.host,
            "server": self.server,
            "tables": self.tables,
            "zones": self.zones,
            "records": self.records,
            "sections": self.sections,
            "last_change": self.last_change,
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "faults": self.faults,
            "warnings": self.warnings,
        })
    }

    fn print(&self) {
        say!("{}: PostgreSQL {}, {}", self.host, self.server, self.tables);
        for node in &self.nodes {
            let lag = match self.last_change - node.change {
                ..=0 => "has all changes".into(),
                1 => "lacks 1 change".into(),
                behind => format!("lacks {behind} changes"),
            };
            let (name, version) = (&node.name, &node.version);
            let (age, zones) = (node.age.as_secs(), node.zones);
            say!("node {name}: {lag}, seen {age} s ago, {zones} zones, nomen {version}");
        }
        let sections = match self.sections {
            0 => String::new(),
            count => format!(", sections: {count}"),
        };
        say!("zones: {}, records: {}{sections}, faults: {}", self.zones, self.records, self.faults.len());
    }
}

/// Returns the fault of a zone, if it has one. `listed`: its row in the table of zones, whose serial must be
/// that of the SOA record.
fn fault_of(apex: &ZoneName, zone: Result<Arc<Zone>, String>, listed: Option<&ListedZone>) -> Option<String> {
    match (zone, listed) {
        (Err(why), _) => Some(format!("zone {apex}: {why}")),
        (Ok(zone), Some(listed)) if zone.serial() != listed.serial => Some(format!(
            "zone {apex}: its SOA record has the serial {}, and nomen.zones has {}",
            zone.serial(),
            listed.serial
        )),
        (Ok(_), _) => None,
    }
}
