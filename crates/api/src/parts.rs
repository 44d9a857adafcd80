//! The parts of the server that requests reach.

use std::sync::Arc;

use config::api::ApiSection;
use control::database_state::zones_of;
use control::parts::ServerParts;
use tokio::sync::Semaphore;
use zone_manager::zones::created::CreationSource;

use crate::documents::ZoneDocuments;
use crate::limits::ClientLimits;

/// The parts of the server that requests reach. Clones share them.
#[derive(Clone)]
pub struct ApiParts {
    /// The running server.
    pub server: Arc<ServerParts>,
    /// What the API of PowerDNS stores about zones.
    pub documents: Arc<ZoneDocuments>,
    /// Settings of TLS; `None` for plain HTTP.
    pub(crate) tls: Option<Arc<tls::ServerConfig>>,
    /// The requests of each client address.
    pub(crate) limits: Arc<ClientLimits>,
    /// Places of lists that are made at a time.
    pub(crate) lists: Arc<Semaphore>,
    /// Places of dumps that are sent at a time.
    pub(crate) dumps: Arc<Semaphore>,
}

/// Most lists that are made at a time. Further requests wait: the threads for them also execute commands of
/// the control socket.
const MAX_LISTS: usize = 3;
/// Most dumps that are sent at a time: each occupies such a thread until its client has read it.
const MAX_DUMPS: usize = 2;

impl ApiParts {
    /// Returns the parts of the API of a running server.
    pub fn new(server: Arc<ServerParts>, documents: Arc<ZoneDocuments>) -> ApiParts {
        let has_tls = server.in_force.settings().api.as_ref().is_some_and(|api| api.has_tls());
        let tls = server.frontend.certificates.api_tls().filter(|_| has_tls);
        let [lists, dumps] = [MAX_LISTS, MAX_DUMPS].map(|most| Arc::new(Semaphore::new(most)));
        ApiParts { server, documents, tls, limits: Arc::default(), lists, dumps }
    }

    /// Returns the template of a new zone for which a request names none: that of `[api]`, and `None` for
    /// a zone of the database, which has that of `[database]`.
    pub(crate) fn template_of(&self, source: &CreationSource) -> Option<String> {
        let of_database = zones_of(&self.server).is_some() && matches!(source, CreationSource::Records(_));
        self.bounds().template.value.filter(|_| !of_database)
    }

    /// Returns the values of `[api]` in force.
    pub fn bounds(&self) -> ApiSection {
        self.server.in_force.settings().api.as_ref().map(|api| api.value.clone()).unwrap_or_default()
    }
}
