//! Creation of zones: the records of a new zone from a request, and the order to the zone manager.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use wire::{NameBuf, Ttl, Type, UnixTime, ZoneName};
use zone::scan::{self, Limits, Record, Rejection, ScanConfig, Sink, TextSource};
use zone_manager::zones::created::{CreatedRecord, CreationSource};

use super::fault::Refused;
use super::metadata::SOA_EDIT_API;
use super::rrsets::{self, WantedChange, WantedRrset};
use super::serials::SoaEditApi;
use super::{content, fields, names};
use crate::documents::ZoneDocument;

/// TTL of the records that are made for a new zone, and of text without a TTL.
const DEFAULT_TTL: Ttl = Ttl::from_secs(3600);
/// Refresh, retry, expire and minimum of the SOA record of a new zone, as PowerDNS has them.
const SOA_TIMES: &str = "10800 3600 604800 3600";
/// The name server of a zone for which a request has none: nomen serves no zone without an NS record.
const NO_NAME_SERVER: &str = "a.misconfigured.dns.server.invalid.";
/// Most records that `$GENERATE` makes in the text of a request.
const MAX_GENERATED: u64 = 100_000;

/// A zone to create.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedZone {
    pub(super) apex: ZoneName,
    pub(super) source: CreationSource,
    /// Comments, disabled records, metadata and account.
    pub(super) document: ZoneDocument,
    /// Whether it is to be signed.
    pub(super) dnssec: bool,
}

/// What a kind of zone in a request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneKind {
    /// Its records are changed here; the word is shown to clients.
    Primary(&'static str),
    /// It is transferred from its primaries.
    Secondary,
}

/// Reads the kind of a zone.
///
/// # Errors
/// nomen has no zones of that kind, or only by its configuration.
pub(super) fn kind(word: &str) -> Result<ZoneKind, Refused> {
    match word.to_ascii_lowercase().as_str() {
        "native" => Ok(ZoneKind::Primary("Native")),
        "master" | "primary" => Ok(ZoneKind::Primary("Master")),
        "slave" | "secondary" => Ok(ZoneKind::Secondary),
        "producer" => Err(Refused::configured("a zone of kind Producer", "catalog-produce")),
        "consumer" => Err(Refused::configured("a zone of kind Consumer", "catalog-template")),
        _ => Err(Refused::unfit(format!("there is no kind of zone '{word}'"))),
    }
}

/// Returns the zone that a request asks for.
///
/// # Errors
/// The first part of the request that cannot be used.
pub(super) fn read(body: &Value, apex: ZoneName, now: UnixTime) -> Result<WantedZone, Refused> {
    let kind = kind(fields::text(body, "kind")?)?;
    let mut document = ZoneDocument::of(&apex);
    properties(body, &mut document)?;
    refuse_configured(body)?;
    let words = document.metadata.entry(SOA_EDIT_API.to_owned());
    words.or_insert_with(|| vec!["DEFAULT".to_owned()]);
    let dnssec = fields::flag_if(body, "dnssec").unwrap_or(false);
    let source = match kind {
        ZoneKind::Secondary => CreationSource::Primaries(primaries(body)?),
        ZoneKind::Primary(word) => {
            document.kind = Some(word.to_owned());
            CreationSource::Records(records(body, &apex, &mut document, now)?)
        }
    };
    Ok(WantedZone { apex, source, document, dnssec })
}

/// Takes the properties of a zone that are stored beside it.
///
/// # Errors
/// One that cannot be used.
pub(super) fn properties(body: &Value, document: &mut ZoneDocument) -> Result<(), Refused> {
    if let Some(account) = fields::text_if(body, "account") {
        account.clone_into(&mut document.account);
    }
    if let Some(word) = fields::text_if(body, "soa_edit_api") {
        SoaEditApi::read(word)?;
        document.metadata.insert(SOA_EDIT_API.to_owned(), vec![word.to_owned()]);
    }
    if let Some(word) = fields::text_if(body, "soa_edit") {
        match word.is_empty() {
            true => document.metadata.remove("SOA-EDIT"),
            false => document.metadata.insert("SOA-EDIT".to_owned(), vec![word.to_owned()]),
        };
    }
    if let Some(rectify) = fields::flag_if(body, "api_rectify") {
        match rectify {
            true => document.metadata.insert("API-RECTIFY".to_owned(), vec!["1".to_owned()]),
            false => document.metadata.remove("API-RECTIFY"),
        };
    }
    Ok(())
}

/// Refuses what only the configuration sets.
fn refuse_configured(body: &Value) -> Result<(), Refused> {
    if fields::text_if(body, "nsec3param").is_some_and(|text| !text.is_empty())
        || fields::flag_if(body, "nsec3narrow") == Some(true)
    {
        return Err(Refused::configured("NSEC3", "nsec3"));
    }
    if fields::text_if(body, "catalog").is_some_and(|text| !text.is_empty()) {
        return Err(Refused::configured("membership of a catalog zone", "catalog-member"));
    }
    for (key, of) in [("master_tsig_key_ids", "allow-transfer"), ("slave_tsig_key_ids", "primaries")] {
        if fields::array_if(body, key).is_some_and(|keys| !keys.is_empty()) {
            return Err(Refused::configured(&format!("'{key}'"), of));
        }
    }
    Ok(())
}

/// Returns the primaries of a secondary zone, as in the configuration.
fn primaries(body: &Value) -> Result<Vec<String>, Refused> {
    let given = fields::texts_if(body, "masters")?.unwrap_or_default();
    if given.is_empty() {
        return Err(Refused::unfit("nomen serves no secondary zone without primaries: give 'masters'"));
    }
    given.iter().map(|text| primary(text).map(|address| config_address(&address))).collect()
}

/// Reads the address of a primary: with or without a port.
///
/// # Errors
/// It is no address.
pub(super) fn primary(text: &str) -> Result<SocketAddr, Refused> {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse().ok();
    let alone = inside.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 53));
    alone.or_else(with_port).ok_or_else(|| Refused::unfit(format!("Primary ({text}) is not an IP address")))
}

fn config_address(address: &SocketAddr) -> String {
    format!("{}@{}", address.ip(), address.port())
}

/// Returns the records of a new zone, and puts comments and disabled records into its document.
fn records(
    body: &Value,
    apex: &ZoneName,
    document: &mut ZoneDocument,
    now: UnixTime,
) -> Result<Vec<CreatedRecord>, Refused> {
    let name = apex.as_name();
    let servers = name_servers(body)?;
    let text = fields::text_if(body, "zone").filter(|text| !text.is_empty());
    let mut records = match (text, fields::array_if(body, "rrsets")) {
        (Some(_), Some(_)) => return Err(Refused::unfit("give either 'rrsets' or the text 'zone'")),
        (Some(text), None) => of_text(text, apex)?,
        (None, given) => {
            let wanted = rrsets::of_zone(given.unwrap_or_default(), apex, now.as_secs())?;
            of_rrsets(&wanted, document)?
        }
    };
    let has_ns = records.iter().any(|record| record.rtype == Type::NS && record.owner.as_name() == name);
    if has_ns && !servers.is_empty() {
        return Err(Refused::unfit("Nameservers list MUST NOT be mixed with zone-level NS in rrsets"));
    }
    let no_server = (!has_ns && servers.is_empty()).then(|| NO_NAME_SERVER.to_owned());
    for server in servers.iter().chain(&no_server) {
        let rdata = content::read(name, Type::NS, server)?;
        records.push(CreatedRecord { owner: name.to_buf(), rtype: Type::NS, ttl: DEFAULT_TTL, rdata });
    }
    soa(body, apex, &mut records, document, now)?;
    check_names(&records)?;
    Ok(records)
}

/// Returns the name servers in a request.
fn name_servers(body: &Value) -> Result<Vec<String>, Refused> {
    let given = fields::texts_if(body, "nameservers");
    let all = given.map_err(|_| Refused::unfit("Nameservers must be non-empty strings"))?.unwrap_or_default();
    for server in &all {
        if !server.ends_with('.') {
            return Err(Refused::unfit(format!("Nameserver is not canonical: '{server}'")));
        }
    }
    Ok(all)
}

/// Returns the records of RRsets, and puts comments and disabled records into the document.
fn of_rrsets(wanted: &[WantedRrset], document: &mut ZoneDocument) -> Result<Vec<CreatedRecord>, Refused> {
    let mut all = Vec::new();
    for rrset in wanted {
        let WantedChange::Replace { ttl, records, comments } = &rrset.change else { continue };
        let (owner, rtype, ttl) = (rrset.owner, rrset.rtype, ttl.unwrap_or(DEFAULT_TTL));
        let records = records.as_deref().unwrap_or_default();
        let disabled = records.iter().filter(|record| record.disabled);
        let disabled = disabled.map(|record| content::shown(rtype, &record.rdata)).collect();
        document.change(owner.as_name(), rtype, |set| {
            set.set_disabled(ttl, disabled);
            set.comments = comments.clone().unwrap_or_default();
        });
        let enabled = records.iter().filter(|record| !record.disabled);
        all.extend(enabled.map(|record| CreatedRecord { owner, rtype, ttl, rdata: record.rdata.clone() }));
    }
    Ok(all)
}

/// Takes the records of a text.
struct Collected<'z> {
    apex: &'z ZoneName,
    records: Vec<CreatedRecord>,
    fault: Option<Refused>,
}

impl Sink for Collected<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        let (owner, rtype) = (record.owner.to_buf(), record.rtype);
        if !record.owner.is_at_or_below(self.apex.as_name()) {
            let fault = Refused::unfit(format!("RRset {owner} IN {rtype}: Name is out of zone"));
            self.fault.get_or_insert(fault);
            return Err(Rejection::stop("the name is out of the zone"));
        }
        let new = CreatedRecord { owner, rtype, ttl: record.ttl, rdata: record.rdata.to_vec() };
        // The text of a transfer ends with the SOA record that it begins with.
        let is_repeated = rtype == Type::SOA && self.records.contains(&new);
        if !is_repeated && !update::is_signers(rtype) {
            self.records.push(new);
        }
        Ok(())
    }
}

/// Returns the records of a zone's text. It may not include files.
fn of_text(text: &str, apex: &ZoneName) -> Result<Vec<CreatedRecord>, Refused> {
    let limits = Limits { errors: 10, include_depth: 0, generated: MAX_GENERATED, ..Limits::default() };
    let config = ScanConfig { limits, default_ttl: Some(DEFAULT_TTL), ..ScanConfig::new(apex.as_name()) };
    let mut sink = Collected { apex, records: Vec::new(), fault: None };
    let report = scan::read(TextSource::bytes("zone", text.as_bytes()), &config, &mut sink);
    if let Some(fault) = sink.fault {
        return Err(fault);
    }
    if !report.is_clean() {
        let errors: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
        let first =
            errors.first().cloned().unwrap_or_else(|| "the text of the zone cannot be read".to_owned());
        return Err(Refused { errors, ..Refused::unfit(first) });
    }
    Ok(sink.records)
}

/// Adds an SOA record if there is none, and sets its serial number.
fn soa(
    body: &Value,
    apex: &ZoneName,
    records: &mut Vec<CreatedRecord>,
    document: &ZoneDocument,
    now: UnixTime,
) -> Result<(), Refused> {
    let name = apex.as_name();
    if !records.iter().any(|record| record.rtype == Type::SOA) {
        let first = records.iter().find(|record| record.rtype == Type::NS && record.owner.as_name() == name);
        let server =
            first.map_or_else(|| NO_NAME_SERVER.to_owned(), |ns| content::shown(Type::NS, &ns.rdata));
        let serial = fields::number_if(body, "serial", u64::from(u32::MAX))?.unwrap_or(0);
        let contact = if name.is_root() { "hostmaster.".to_owned() } else { format!("hostmaster.{name}") };
        let rdata = content::read(name, Type::SOA, &format!("{server} {contact} {serial} {SOA_TIMES}"))?;
        let soa = CreatedRecord { owner: name.to_buf(), rtype: Type::SOA, ttl: DEFAULT_TTL, rdata };
        records.insert(0, soa);
    }
    let word = document.metadata.get(SOA_EDIT_API).and_then(|words| words.first());
    let policy = SoaEditApi::read(word.map_or("", String::as_str))?;
    let of_soa = records.iter_mut().filter(|record| record.rtype == Type::SOA);
    of_soa.for_each(|record| policy.apply(&mut record.rdata, now));
    Ok(())
}

/// Refuses a CNAME beside other records.
fn check_names(records: &[CreatedRecord]) -> Result<(), Refused> {
    let mut types: BTreeMap<NameBuf, Vec<Type>> = BTreeMap::new();
    for record in records {
        types.entry(record.owner).or_default().push(record.rtype);
    }
    for (owner, types) in types {
        let is_other = |rtype: &Type| *rtype != Type::CNAME && !rtype.may_be_beside_cname();
        if types.contains(&Type::CNAME) && types.iter().any(is_other) {
            let shown = names::rrset(owner.as_name(), Type::CNAME);
            return Err(Refused::unfit(format!("{shown}: Conflicts with another RRset")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn zone(mut body: Value) -> Result<WantedZone, Refused> {
        body["kind"] = "Native".into();
        read(&body, names::zone("example.").expect("a zone"), UnixTime::from_secs(1_700_000_000))
    }

    fn contents(zone: &WantedZone) -> Vec<String> {
        let CreationSource::Records(records) = &zone.source else { panic!("{zone:?}") };
        let line = |record: &CreatedRecord| {
            format!("{} {} {}", record.owner, record.rtype, content::shown(record.rtype, &record.rdata))
        };
        records.iter().map(line).collect()
    }

    #[test]
    fn a_zone_of_name_servers_has_an_soa_record_with_the_date() {
        let made = zone(json!({"nameservers": ["ns1.example.", "ns2.example."]})).expect("a zone");
        let soa = "example. SOA ns1.example. hostmaster.example. 2023111401 10800 3600 604800 3600";
        assert_eq!(contents(&made), [soa, "example. NS ns1.example.", "example. NS ns2.example."]);
    }

    #[test]
    fn a_serial_number_counts_without_soa_edit_api() {
        let made = zone(json!({"serial": 22, "soa_edit_api": ""})).expect("a zone");
        let soa = format!("example. SOA {NO_NAME_SERVER} hostmaster.example. 22 {SOA_TIMES}");
        assert_eq!(contents(&made), [soa, format!("example. NS {NO_NAME_SERVER}")]);
    }

    #[test]
    fn the_text_of_a_zone_is_read_and_may_not_include_files() {
        let text = "@ 60 IN SOA a. b. 5 1 2 3 4\n@ NS a.\nwww A 192.0.2.1\n@ 60 IN SOA a. b. 5 1 2 3 4\n";
        let made = zone(json!({"zone": text, "soa_edit_api": ""})).expect("a zone");
        assert_eq!(
            contents(&made),
            ["example. SOA a. b. 5 1 2 3 4", "example. NS a.", "www.example. A 192.0.2.1"]
        );
        for bad in [
            "$INCLUDE /etc/passwd\n",
            "www A x\n",
            "www.other. A 192.0.2.1\n",
            "$GENERATE 1-200000 a$ A 192.0.2.1\n",
        ] {
            assert_eq!(zone(json!({"zone": bad})).expect_err(bad).status.as_u16(), 422);
        }
    }

    #[test]
    fn zones_with_faults_are_refused() {
        let ns = json!([{"name": "example.", "type": "NS", "ttl": 60, "records": [{"content": "ns1."}]}]);
        let cname = json!([{"name": "example.", "type": "CNAME", "ttl": 60, "records": [{"content": "a."}]}]);
        for bad in [
            json!({"nameservers": ["ns1.example"]}),
            json!({"nameservers": [{"a": 1}]}),
            json!({"nameservers": ["ns1.example."], "rrsets": ns}),
            json!({"rrsets": cname}),
            json!({"rrsets": [], "zone": "@ NS a."}),
            json!({"soa_edit_api": "NOPE"}),
            json!({"nsec3param": "1 0 0 -"}),
            json!({"catalog": "catalog."}),
        ] {
            assert_eq!(zone(bad.clone()).expect_err("a refusal").status.as_u16(), 422, "{bad}");
        }
    }

    #[test]
    fn comments_and_disabled_records_of_a_new_zone_are_stored() {
        let made = zone(json!({"rrsets": [
            {"name": "example.", "type": "soa", "comments": [{"content": "c", "account": "a"}]},
            {"name": "x.example.", "type": "A", "ttl": 5,
             "records": [{"content": "192.0.2.1", "disabled": true}]},
        ]}))
        .expect("a zone");
        assert_eq!(made.document.rrsets().len(), 2);
        assert_eq!(contents(&made).len(), 2);
    }

    #[test]
    fn primaries_may_have_ports() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1@53"),
            ("192.0.2.1:5300", "192.0.2.1@5300"),
            ("2001:db8::1", "2001:db8::1@53"),
            ("[2001:db8::1]:5300", "2001:db8::1@5300"),
            ("[2001:db8::1]", "2001:db8::1@53"),
        ] {
            assert_eq!(primary(text).map(|address| config_address(&address)).as_deref(), Ok(expected));
        }
        assert!(primary("nope").is_err());
        assert!(
            read(&json!({"kind": "Slave"}), names::zone("a.").expect("a zone"), UnixTime::from_secs(0))
                .is_err()
        );
    }
}
