//! Queries by Oblivious DoH (RFC 9230): the server is the target, and the query goes to it through a proxy,
//! or directly.

use std::net::IpAddr;

use fetch::{
    ExchangeOptions, HostAddresses, ObliviousExchangeFault, ObliviousRoute, oblivious_config,
    oblivious_exchange,
};
use tokio::runtime::Builder;

use super::server;
use super::words::{Family, ObliviousWanted, Wanted};

/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;
/// The path of most targets.
const PATH: &str = "/dns-query";
/// Most bytes of a response.
const MAX_RESPONSE: usize = 1 << 17;

/// The hosts of the exchange.
struct KnownHosts<'w> {
    wanted: &'w Wanted,
    target: String,
}

impl HostAddresses for KnownHosts<'_> {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        match host == self.target {
            true => Ok(vec![self.wanted.server.ip()]),
            false => {
                server::addresses(host, Family::Any, &Wanted { time: self.wanted.time, ..Wanted::default() })
            }
        }
    }
}

/// Sends the query. Returns the answer.
pub(super) fn ask(wanted: &Wanted, oblivious: &ObliviousWanted, query: &[u8]) -> Result<Vec<u8>, String> {
    let tls = wanted.tls.clone().unwrap_or_default();
    let target = tls.name.map(|name| name.to_string()).unwrap_or_else(|| host_of(wanted.server.ip()));
    let port = match wanted.server.port() {
        HTTPS_PORT => String::new(),
        port => format!(":{port}"),
    };
    let path = oblivious.path.as_deref().unwrap_or(PATH);
    let route = ObliviousRoute::new(&format!("https://{target}{port}{path}"), oblivious.proxy.as_deref());
    let route = route.map_err(|fault| fault.to_string())?;
    let options =
        ExchangeOptions { max_size: MAX_RESPONSE, timeout: wanted.time, ca_file: tls.ca_file.as_deref() };
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| wording::reason(&error))?;
    let hosts = KnownHosts { wanted, target };
    let answered = runtime.block_on(async {
        let config = oblivious_config(&route, options, &hosts).await?;
        match oblivious_exchange(&route, &config, query, options, &hosts).await {
            // The target has replaced its key meanwhile.
            Err(ObliviousExchangeFault::UnknownKey) => {
                let config = oblivious_config(&route, options, &hosts).await?;
                oblivious_exchange(&route, &config, query, options, &hosts).await
            }
            answered => answered,
        }
    });
    answered.map_err(|fault| format!("cannot ask {} by Oblivious DoH: {fault}", wanted.server))
}

/// Returns an address as the host of a URL.
fn host_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}
