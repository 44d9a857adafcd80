//! What no single key can tell: zones named twice, addresses opened twice, templates that do not exist.
//! Reads no zone file; `crate::zones` does that.

use std::collections::HashMap;
use std::net::SocketAddr;

use net::{XdpAttach, XdpCopy};
use wire::name::NameBuf;

use super::Config;
use super::raw::At;
use super::report::{Diagnostic, Place, did_you_mean};
use super::schema::Listen;
use super::units::{Endpoint, Proto};

/// Adds a fault for everything in the configuration that cannot be true together.
pub fn check(config: &Config, faults: &mut Vec<Diagnostic>) {
    check_server(config, faults);
    check_listens(config, faults);
    check_fronts(config, faults);
    check_templates(config, faults);
    check_zones(config, faults);
}

fn report<'f>(
    faults: &'f mut Vec<Diagnostic>,
    place: Option<&Place>,
    message: String,
) -> Option<&'f mut Diagnostic> {
    faults.push(match place {
        Some(place) => Diagnostic::error(place.clone(), message),
        None => Diagnostic::whole(message),
    });
    faults.last_mut()
}

fn check_server(config: &Config, faults: &mut Vec<Diagnostic>) {
    let server = &config.server;
    if server.group.is_some() && server.user.is_none() {
        report(faults, server.group.place.as_ref(), "`group` has no effect without `user`".into());
    }
    if server.tcp_per_client.0 > server.tcp_connections.0 {
        let place = server.tcp_per_client.place.as_ref().or(server.tcp_connections.place.as_ref());
        let message = format!(
            "one client may open {} TCP connections, more than the {} there are in all",
            server.tcp_per_client.0, server.tcp_connections.0
        );
        report(faults, place, message);
    }
}

/// The same address and port twice for one transport, or a wildcard address that covers another one.
fn check_listens(config: &Config, faults: &mut Vec<Diagnostic>) {
    let mut open: Vec<(Proto, SocketAddr, Option<Place>)> = Vec::new();
    for listen in &config.listens {
        for proto in listen.proto.iter() {
            for addr in listen.addr.iter() {
                let socket = addr.value.0;
                let clash = open.iter().find(|(p, other, _)| *p == proto.value && overlaps(*other, socket));
                if let Some((_, other, first)) = clash {
                    let message = format!(
                        "{} over {} overlaps with {}",
                        addr.value,
                        proto.value,
                        if *other == socket { "itself".into() } else { Endpoint(*other).to_string() }
                    );
                    let first = first.clone();
                    let place = addr.place.as_ref();
                    if let (Some(fault), Some(first)) = (report(faults, place, message), first) {
                        fault.related.push((first, "listened on already".into()));
                    }
                } else {
                    open.push((proto.value, socket, addr.place.clone()));
                }
            }
        }
    }
    if let Some(metrics) = &config.metrics {
        let socket = metrics.listen.value.0;
        if let Some((_, other, first)) =
            open.iter().find(|(p, other, _)| *p == Proto::Tcp && overlaps(*other, socket))
        {
            let message = format!("{} overlaps with the DNS address {}", Endpoint(socket), Endpoint(*other));
            let first = first.clone();
            if let (Some(fault), Some(first)) =
                (report(faults, metrics.listen.place.as_ref(), message), first)
            {
                fault.related.push((first, "listened on already".into()));
            }
        }
    }
}

/// Settings of AF_XDP without an interface, and two settings for one interface.
fn check_fronts(config: &Config, faults: &mut Vec<Diagnostic>) {
    let mut known: HashMap<&str, &Listen> = HashMap::new();
    for listen in &config.listens {
        let places = [
            ("xdp-attach", &listen.xdp_attach.place),
            ("xdp-copy", &listen.xdp_copy.place),
            ("xdp-queues", &listen.xdp_queues.place),
        ];
        let Some(interface) = listen.xdp.as_deref() else {
            // A default may be written down.
            let set = [
                listen.xdp_attach.value != XdpAttach::Auto,
                listen.xdp_copy.value != XdpCopy::Auto,
                listen.xdp_queues.is_some(),
            ];
            for ((key, place), _) in places.into_iter().zip(set).filter(|(_, set)| *set) {
                report(faults, place.as_ref(), format!("`{key}` has no effect without `xdp`"));
            }
            continue;
        };
        let first = *known.entry(interface).or_insert(listen);
        let same = [
            first.xdp_attach.value == listen.xdp_attach.value,
            first.xdp_copy.value == listen.xdp_copy.value,
            first.xdp_queues.value == listen.xdp_queues.value,
        ];
        for ((key, place), _) in places.into_iter().zip(same).filter(|(_, same)| !same) {
            let message = format!("`{key}` differs from another [[listen]] with xdp = \"{interface}\"");
            let place = place.as_ref().or(listen.xdp.place.as_ref());
            if let (Some(fault), Some(at)) = (report(faults, place, message), first.xdp.place.clone()) {
                fault.related.push((at, "the other one".into()));
            }
        }
    }
}

/// Whether two sockets cannot both be bound. IPv6 sockets are opened for IPv6 only.
fn overlaps(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port()
        && a.is_ipv4() == b.is_ipv4()
        && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}

fn check_templates(config: &Config, faults: &mut Vec<Diagnostic>) {
    for (name, template) in &config.templates {
        if template.file.is_none() && template.directory.is_none() {
            let message = format!("template `{name}` says nothing: it needs `file` or `directory`");
            report(faults, template.place.as_ref(), message);
        }
        if template.directory.is_none() && template.pattern.place.is_some() {
            let message = "`pattern` has no effect without `directory`".to_owned();
            report(faults, template.pattern.place.as_ref(), message);
        }
    }
}

fn check_zones(config: &Config, faults: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<&NameBuf, &At<NameBuf>> = HashMap::new();
    for zone in &config.zones {
        if let Some(first) = seen.get(&zone.name.value) {
            let first = first.place.clone();
            let message = format!("zone {} is defined twice", zone.name.value);
            if let (Some(fault), Some(first)) = (report(faults, zone.name.place.as_ref(), message), first) {
                fault.related.push((first, "first here".into()));
            }
        } else {
            seen.insert(&zone.name.value, &zone.name);
        }
        check_zone_file(config, zone, faults);
    }
}

fn check_zone_file(config: &Config, zone: &At<super::Zone>, faults: &mut Vec<Diagnostic>) {
    let Some(wanted) = zone.template.value.as_deref() else {
        if zone.file.is_none() {
            let message = format!("zone {} has no `file` and no `template`", zone.name.value);
            report(faults, zone.name.place.as_ref(), message);
        }
        return;
    };
    match config.templates.get(wanted) {
        None => {
            let names = config.templates.keys().map(String::as_str);
            let hint = did_you_mean(wanted, names).map(|near| format!("did you mean \"{near}\"?"));
            let message = format!("there is no [template.{wanted}]");
            if let Some(fault) = report(faults, zone.template.place.as_ref(), message) {
                fault.hint = hint;
            }
        }
        Some(template) if zone.file.is_none() && template.file.is_none() => {
            let message =
                format!("zone {} has no `file`, and template `{wanted}` has none either", zone.name.value);
            report(faults, zone.name.place.as_ref(), message);
        }
        Some(_) => {}
    }
}
