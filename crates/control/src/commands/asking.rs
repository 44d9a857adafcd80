//! The client of a query that an operator asks about: its address and transport, the address of this server
//! that it queries, the TSIG key that signs the query, and the EDNS options of a forwarder about it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use message::EdnsOption;
use query_path::{ClientIds, GroupClient};
use transport::{Client, Transport};
use wire::edns::OptionCode;
use wire::{LowerName, LowerNameBuf};

use crate::fault::ArgumentFault;
use crate::parts::ServerParts;
use crate::protocol::ClientDetails;
use config::addresses::OnAddress;
use config::interfaces::Interfaces;
use config::neighbours::MacAddress;
use config::policy_groups::MAX_CLIENT_ID;
use config::zone_name::zone_name;

/// The client of a query.
#[derive(Clone, Debug)]
pub(super) struct QueryClient {
    /// Its address and transport: loopback, unless the operator names one.
    client: Client,
    /// Whether the operator names anything about it.
    is_named: bool,
    /// Whether the operator names the transport.
    has_transport: bool,
    /// The key that signs its query.
    key: Option<LowerNameBuf>,
    /// The options about it in the query of a forwarder.
    options: Vec<EdnsOption>,
    /// The same as RDATA of OPT.
    ids: Vec<u8>,
    /// The name that it has written for itself.
    name: Option<Arc<str>>,
}

impl QueryClient {
    /// Returns the client with this address, whose query the key of this name signs.
    ///
    /// # Errors
    /// If there is no such key, if a detail cannot be read, or if it has no effect.
    pub(super) fn read(
        parts: &ServerParts,
        address: Option<IpAddr>,
        key: Option<&str>,
        details: &ClientDetails,
    ) -> Result<Self, ArgumentFault> {
        let find = |text: &str| {
            let name = zone_name(text).map_err(ArgumentFault::Name)?.as_name().to_lower();
            match parts.frontend.engine.has_key(name.as_lower()) {
                true => Ok(name),
                false => Err(ArgumentFault::NoSuchKey(name.as_name().to_string())),
            }
        };
        let key = key.map(find).transpose()?;
        let is_named = address.is_some() || key.is_some() || *details != ClientDetails::default();
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let transport = details.proto.as_deref().map(transport).transpose()?;
        let client = Client {
            peer: SocketAddr::new(address, 0),
            local: local(details)?,
            transport: transport.unwrap_or(Transport::Udp),
        };
        let mut options = options(details)?;
        let mut name = None;
        if !options.is_empty() {
            let settings = parts.in_force.settings();
            let trusted = settings.policy_groups(&Interfaces::default()).trusted;
            if !trusted.iter().any(|network| network.contains(address.to_canonical())) {
                // It may also be what the client has written for itself.
                if settings.has_client_names(client.transport) {
                    name = details.client_id.as_ref().map(|name| name.to_ascii_lowercase().into());
                    options.retain(|option| option.code != OptionCode::CPE_ID);
                }
                if !options.is_empty() {
                    return Err(ArgumentFault::NoForwarder(address));
                }
            }
        }
        let ids = options.iter().flat_map(bytes).collect();
        Ok(QueryClient { client, is_named, has_transport: transport.is_some(), key, options, ids, name })
    }

    /// Its address, and the transport of its query.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The same client with a query over this transport, unless the operator names one.
    pub(super) fn over(&self, transport: Transport) -> QueryClient {
        let transport = if self.has_transport { self.client.transport } else { transport };
        QueryClient { client: Client { transport, ..self.client }, ..self.clone() }
    }

    /// The name of the key that signs its query.
    pub(super) fn key_name(&self) -> Option<LowerName<'_>> {
        self.key.as_ref().map(LowerNameBuf::as_lower)
    }

    /// The EDNS options of its query.
    pub(super) fn options(&self) -> &[EdnsOption] {
        &self.options
    }

    /// The name that it has written for itself.
    pub(super) fn name(&self) -> Option<Arc<str>> {
        self.name.clone()
    }

    /// Returns the client as groups see it; `None` if the operator names none: it is in no group then.
    pub(super) fn of_groups(&self) -> Option<GroupClient<'_>> {
        let ids = (!self.ids.is_empty()).then(|| ClientIds::of_bytes(&self.ids));
        let (client, key, name) = (&self.client, self.key_name(), self.name.as_ref());
        self.is_named.then_some(GroupClient { client, key, ids, name })
    }

    /// Its address, if the operator names anything about it.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.is_named.then(|| self.client.peer.ip())
    }
}

fn transport(text: &str) -> Result<Transport, ArgumentFault> {
    let known = Transport::ALL.iter().find(|transport| transport.label() == text);
    known.copied().ok_or_else(|| ArgumentFault::Transport(text.to_owned()))
}

/// Returns the address that the query is sent to. Without one, no condition on an address is met.
fn local(details: &ClientDetails) -> Result<SocketAddr, ArgumentFault> {
    let none = SocketAddr::from(([0, 0, 0, 0], 0));
    let Some(text) = &details.on else { return Ok(none) };
    let OnAddress(local) = text.parse().map_err(ArgumentFault::On)?;
    Ok(SocketAddr::new(local.address, local.port.unwrap_or(0)))
}

/// Returns the EDNS options about the client.
fn options(details: &ClientDetails) -> Result<Vec<EdnsOption>, ArgumentFault> {
    let mut options = Vec::new();
    let mut add = |code, data| options.push(EdnsOption { code, data });
    if let Some(text) = &details.mac {
        let fault = |fault| ArgumentFault::Mac(text.clone(), fault);
        let MacAddress(address) = text.parse().map_err(fault)?;
        add(OptionCode::DEVICE_MAC, address.to_vec());
    }
    if let Some(text) = &details.client_id {
        if !(1..=MAX_CLIENT_ID).contains(&text.len()) {
            return Err(ArgumentFault::ClientId(text.len()));
        }
        add(OptionCode::CPE_ID, text.clone().into_bytes());
    }
    if let Some(tag) = details.edns_tag {
        add(OptionCode::CLIENT_TAG, tag.to_be_bytes().to_vec());
    }
    Ok(options)
}

/// Returns an option as RDATA of OPT.
fn bytes(option: &EdnsOption) -> Vec<u8> {
    // The longest is an identifier.
    let len = u16::try_from(option.data.len()).unwrap_or(u16::MAX);
    [&option.code.0.to_be_bytes()[..], &len.to_be_bytes(), &option.data].concat()
}
