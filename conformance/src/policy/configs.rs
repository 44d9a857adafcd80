//! The policy in each server's words: policy zone files, and what is added to the configuration of resolvers.

use super::resolver_v6;
use super::rules::{Action, Override, Policy, PolicyZone};
use crate::servers::Kind;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Adds the policy to the configuration of a resolver; writes the policy zones into its folder.
pub(crate) fn adapt(kind: Kind, text: String, home: &Path, policy: &Policy) -> Result<String, String> {
    let mut files = Vec::new();
    for zone in &policy.zones {
        // Unbound has no override of this kind; the same action in each rule is the same.
        let action = match (&zone.given, kind) {
            (Override::With(action @ Action::TcpOnly), Kind::Unbound) => Some(action),
            _ => None,
        };
        let file = home.join(format!("{}zone", zone.name));
        write(&file, &zone.text(action))?;
        files.push(file);
    }
    let zones: Vec<(&PolicyZone, &PathBuf)> = policy.zones.iter().zip(&files).collect();
    let text = with_v6(kind, text);
    Ok(match kind {
        Kind::Bind => bind(&text, &zones, policy),
        Kind::Unbound => unbound(&text, &zones),
        Kind::Recursor => {
            let lua = home.join("anchor.lua");
            let mut script = fs::read_to_string(&lua).map_err(|e| format!("{}: {e}", lua.display()))?;
            script += &recursor(&zones);
            write(&lua, &script)?;
            // A response from the packet cache was made for another client, maybe with another policy.
            text + "disable-packetcache=yes\n"
        }
        _ => text + &nomen(&zones, policy),
    })
}

/// Adds the IPv6 address of a resolver and IPv6 clients to its configuration.
fn with_v6(kind: Kind, text: String) -> String {
    let address = resolver_v6(kind);
    let clients = "2001:2::/48";
    match kind {
        Kind::Bind => text.replacen("listen-on-v6 { none; }", &format!("listen-on-v6 {{ {address}; }}"), 1),
        Kind::Unbound => text.replacen(
            "server:\n",
            &format!("server:\n interface: {address}\n access-control: {clients} allow\n"),
            1,
        ),
        Kind::Recursor => {
            let text = text.replacen("local-address=", &format!("local-address={address},"), 1);
            text.replacen("allow-from=", &format!("allow-from={clients},"), 1)
        }
        _ => {
            let text = text.replacen("addr = [", &format!("addr = [\"{address}@53\", "), 1);
            text.replacen("from = [", &format!("from = [\"{clients}\", "), 1)
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn bind(text: &str, zones: &[(&PolicyZone, &PathBuf)], policy: &Policy) -> String {
    let yes = |is| if is { "yes" } else { "no" };
    let mut list = String::new();
    let mut out = String::new();
    for (zone, file) in zones {
        let given = match &zone.given {
            Override::Given => "given".to_owned(),
            Override::Disabled => "disabled".to_owned(),
            Override::With(Action::Cname(target)) => format!("cname \"{target}\""),
            Override::With(action) => action.label().to_ascii_lowercase(),
        };
        let _ = write!(list, " zone \"{}\" policy {given} max-policy-ttl {};", zone.name, zone.max_ttl);
        let _ = writeln!(out, "zone \"{}\" {{ type primary; file \"{}\"; }};", zone.name, file.display());
    }
    let options = format!(
        "options {{\n response-policy {{{list} }} break-dnssec {} qname-wait-recurse {} \
         min-ns-dots {};\n notify no;\n",
        yes(policy.break_dnssec),
        yes(policy.qname_wait),
        policy.min_ns_dots
    );
    text.replacen("options {\n", &options, 1) + &out
}

fn unbound(text: &str, zones: &[(&PolicyZone, &PathBuf)]) -> String {
    let mut out = text.replacen("\"validator iterator\"", "\"respip validator iterator\"", 1);
    for (zone, file) in zones {
        let _ = write!(out, "rpz:\n name: \"{}\"\n zonefile: \"{}\"\n", zone.name, file.display());
        match &zone.given {
            Override::Given | Override::With(Action::TcpOnly) => {}
            Override::Disabled => out += " rpz-action-override: disabled\n",
            Override::With(Action::Cname(target)) => {
                let _ = write!(out, " rpz-action-override: cname\n rpz-cname-override: \"{target}\"\n");
            }
            Override::With(action) => {
                let _ = writeln!(out, " rpz-action-override: {}", action.label().to_ascii_lowercase());
            }
        }
    }
    out
}

fn recursor(zones: &[(&PolicyZone, &PathBuf)]) -> String {
    let mut out = String::new();
    for (zone, file) in zones {
        let override_ = match &zone.given {
            Override::Given => String::new(),
            // It cannot turn a zone off.
            Override::Disabled => continue,
            Override::With(Action::Cname(target)) => {
                format!(", defpol=Policy.Custom, defcontent=\"{target}\"")
            }
            Override::With(action) => {
                let policy = match action {
                    Action::Nxdomain => "NXDOMAIN",
                    Action::Nodata => "NODATA",
                    Action::Drop => "Drop",
                    Action::TcpOnly => "Truncate",
                    _ => "NoAction",
                };
                format!(", defpol=Policy.{policy}")
            }
        };
        let _ = writeln!(
            out,
            "rpzFile(\"{}\", {{policyName=\"{}\", includeSOA=true{override_}}})",
            file.display(),
            zone.name
        );
    }
    out
}

fn nomen(zones: &[(&PolicyZone, &PathBuf)], policy: &Policy) -> String {
    let (mut served, mut listed) = (String::new(), String::new());
    for (zone, file) in zones {
        let action = match &zone.given {
            Override::Given => "given".to_owned(),
            Override::Disabled => "disabled".to_owned(),
            Override::With(Action::Cname(target)) => target.to_string(),
            Override::With(action) => action.label().to_ascii_lowercase(),
        };
        let _ = write!(served, "\n[[zone]]\nname = \"{}\"\nfile = \"{}\"\n", zone.name, file.display());
        let _ = write!(
            listed,
            "\n[[policy.zone]]\nname = \"{}\"\naction = \"{action}\"\nmax-ttl = \"{}s\"\n",
            zone.name, zone.max_ttl
        );
    }
    format!(
        "{served}\n[policy]\nbreak-dnssec = {}\nqname-wait-recurse = {}\nmin-ns-dots = {}\n{listed}",
        policy.break_dnssec, policy.qname_wait, policy.min_ns_dots
    )
}
