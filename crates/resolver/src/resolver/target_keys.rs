//! Keys of targets of Oblivious DoH (RFC 9230): a connection of its own fetches one from its target, for all
//! connections to the proxy. Its session stores the key; here is when it is opened and closed.

use std::time::Instant;

use transport::{Action, Encryption, EncryptionFault, Link};

use super::Resolver;
use super::state::{KeyLink, LinkLoss, LinkUse, Timer};
use crate::random::Random;
use crate::request::LookupSink;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Opens the connection that fetches the key which queries on a connection need, unless there is one.
    pub(super) fn key_wanted(&mut self, link: Link, now: Instant, actions: &mut Vec<Action>) {
        let Some(LinkUse::Stream(connection)) = self.links.get(&link) else { return };
        let id = connection.server;
        let fetch = Link(self.number());
        let Some(server) = self.servers.get_mut(id).filter(|server| server.key_link.is_none()) else {
            return;
        };
        let Some(target) = server.upstream.reach.encryption().and_then(Encryption::key_server) else {
            return;
        };
        let (to, encryption) = (target.address, target.encryption.clone());
        server.key_link = Some(fetch);
        let (transport, from) = (encryption.transport(), self.config.source_for(to));
        actions.push(Action::Open { link: fetch, transport, to, from, encryption: Some(encryption) });
        let until = now + self.config.timing.handshake;
        self.links.insert(fetch, LinkUse::Key(KeyLink { server: id, until }));
        self.set_timer(until, Timer::Handshake(fetch));
    }

    /// Ends the connection that fetches a key, which has ended with this loss.
    pub(super) fn key_lost(&mut self, link: Link, loss: LinkLoss, actions: &mut Vec<Action>) {
        let loss = match loss {
            LinkLoss::Io(error) => LinkLoss::before_open(error),
            loss => loss,
        };
        let fault = match loss {
            LinkLoss::Encryption(fault) => fault,
            LinkLoss::Io(_) => EncryptionFault::ObliviousTarget,
        };
        self.key_settled(link, Some(fault), actions);
    }

    /// Closes the connection that fetches a key: the key is stored, or there is a fault.
    pub(super) fn close_key_link(
        &mut self,
        link: Link,
        fault: Option<EncryptionFault>,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Close { link });
        self.key_settled(link, fault, actions);
    }

    /// Handles the end of a connection that fetches a key: the connections to the proxy go on.
    fn key_settled(&mut self, link: Link, fault: Option<EncryptionFault>, actions: &mut Vec<Action>) {
        let Some(LinkUse::Key(KeyLink { server, until })) = self.links.remove(&link) else { return };
        self.drop_timer(Some(until), Timer::Handshake(link));
        let Some(server) = self.servers.get_mut(server) else { return };
        server.key_link = None;
        if let Some(fault) = fault {
            server.on_insecure(fault);
        }
        actions.extend(server.connections.iter().map(|&link| Action::Resume { link }));
    }
}
