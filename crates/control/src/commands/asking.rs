//! The client of a query that an operator asks about: its address, and the TSIG key that signs the query.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use query_path::{Engine, GroupClient};
use serving::frontend::Served;
use transport::{Client, Transport};
use wire::{LowerName, LowerNameBuf};

use crate::fault::ArgumentFault;
use config::zone_name::zone_name;

/// The client of a query.
#[derive(Clone, Debug)]
pub(super) struct QueryClient {
    /// Its address and transport: loopback, unless the operator names one.
    client: Client,
    /// Whether the operator names an address or a key.
    is_named: bool,
    /// The key that signs its query.
    key: Option<LowerNameBuf>,
}

impl QueryClient {
    /// Returns the client with this address, whose query the key of this name signs.
    ///
    /// # Errors
    /// If there is no such key.
    pub(super) fn read(
        engine: &Engine<Served>,
        address: Option<IpAddr>,
        key: Option<&str>,
    ) -> Result<Self, ArgumentFault> {
        let find = |text: &str| {
            let name = zone_name(text).map_err(ArgumentFault::Name)?.as_name().to_lower();
            match engine.has_key(name.as_lower()) {
                true => Ok(name),
                false => Err(ArgumentFault::NoSuchKey(name.as_name().to_string())),
            }
        };
        let key = key.map(find).transpose()?;
        let is_named = address.is_some() || key.is_some();
        // Conditions on an interface or a transport are met as by UDP on no certain interface.
        let local = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let client = Client { peer: SocketAddr::new(address, 0), local, transport: Transport::Udp };
        Ok(QueryClient { client, is_named, key })
    }

    /// Its address, and the transport of its query.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The same client with a query over this transport.
    pub(super) fn over(&self, transport: Transport) -> QueryClient {
        QueryClient { client: Client { transport, ..self.client }, ..self.clone() }
    }

    /// The name of the key that signs its query.
    pub(super) fn key_name(&self) -> Option<LowerName<'_>> {
        self.key.as_ref().map(LowerNameBuf::as_lower)
    }

    /// Returns the client as groups see it; `None` if the operator names none: it is in no group then.
    pub(super) fn of_groups(&self) -> Option<GroupClient<'_>> {
        self.is_named.then(|| GroupClient { client: &self.client, key: self.key_name(), ids: None })
    }

    /// Its address, if the operator names it or a key.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.is_named.then(|| self.client.peer.ip())
    }
}
