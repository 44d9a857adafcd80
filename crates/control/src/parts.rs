//! The parts of a running server, for commands, figures and the API.

use std::sync::Arc;

use crate::api_figures::ApiFigures;
use crate::connections::AdminConnections;
use crate::in_force::InForce;
use crate::rates::RateHistory;
use crate::tokens::TokenTable;
use serving::frontend::Frontend;
use serving::issuing::Issuing;
use serving::recursive::Recursive;
use telemetry::logging::Logging;
use telemetry::process::Process;
use threads::background::Background;
use zone_manager::changes::Changes;
use zone_manager::database::sections::NodeSections;
use zone_manager::secondaries::Secondaries;
use zone_manager::stores::differences::Differences;
use zone_manager::transfers::Transfers;
use zone_manager::zones::images::Images;
use zone_manager::zones::manager::{ZoneManagerHandle, ZoneTable};

/// The parts of a running server that commands, figures and the API reach.
#[derive(Clone)]
pub struct ServerParts {
    /// Answers queries.
    pub frontend: Arc<Frontend>,
    /// The certificate that this server orders from a CA.
    pub issuing: Arc<Issuing>,
    /// All zones and their states.
    pub table: Arc<ZoneTable>,
    /// Loads zones again, adds and removes them.
    pub manager: ZoneManagerHandle,
    /// The zones' images, if there are any.
    pub images: Option<Arc<Images>>,
    /// Recursive service, if it is on.
    pub recursive: Option<Arc<Recursive>>,
    /// Transfers to other servers.
    pub transfers: Arc<Transfers>,
    /// Secondary zones, and NOTIFY.
    pub secondaries: Arc<Secondaries>,
    /// Dynamic updates, if there is a state folder to store them in.
    pub changes: Option<Arc<Changes>>,
    /// Sections of the configuration that the database has, if there is one.
    pub sections: Option<Arc<NodeSections>>,
    /// Stored differences of zone files, if there is a state folder.
    pub differences: Option<Arc<Differences>>,
    /// The configuration.
    pub in_force: Arc<InForce>,
    /// The log.
    pub logging: Arc<Logging>,
    /// The process.
    pub process: Process,
    /// Background work.
    pub background: Arc<Background>,
    /// Counts of the last minutes.
    pub rates: Arc<RateHistory>,
    /// Tokens of the HTTP API.
    pub tokens: Arc<TokenTable>,
    /// Counters of the HTTP API.
    pub api_figures: Arc<ApiFigures>,
    /// Operators' connections.
    pub connections: Arc<AdminConnections>,
}
