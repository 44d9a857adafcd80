//! The thread of a datagram worker, which replaces a socket that fails.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use transport::HandlerFactory;

use super::endpoint::Endpoint;
use super::mmsg::Mmsg;
use super::plain::Plain;
use super::proxied::ProxiedDatagrams;
use super::service::DatagramService;
use super::socket::open;
use crate::alarm::Alarm;
use crate::config::UdpBackend;
use crate::fault::WorkerFaultKind;
use crate::job::Job;

/// First and longest pause between attempts to open a new socket.
const REBIND_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Pause before a passed socket that failed is tried again.
const PASSED_PAUSE: Duration = Duration::from_millis(500);

/// Starts a worker thread on `socket`.
pub(crate) fn spawn<F: HandlerFactory>(
    socket: UdpSocket,
    factory: Arc<F>,
    job: Job,
) -> io::Result<JoinHandle<()>> {
    // Without the timeout a blocked worker could not check whether it should stop.
    socket.set_read_timeout(Some(job.config.udp.idle_wake.max(Duration::from_millis(1))))?;
    let alarm = Alarm::new()?;
    let name = format!("udp-{}-{}", job.id.local.port(), job.id.index);
    std::thread::Builder::new().name(name).spawn(move || {
        let mut service = DatagramService::new(factory, alarm, job);
        // A passed socket is kept, whatever error it reports.
        let kept = if service.job.passed { socket.try_clone().ok() } else { None };
        let mut socket = socket;
        // Each round serves one socket; a new round means that it failed and was replaced.
        loop {
            let Job { config, stats, id, proxies, .. } = &service.job;
            let proxied = ProxiedDatagrams::new(proxies, Arc::clone(stats));
            let endpoint = Endpoint::new(socket, id.local, config.udp.max_reply);
            let end = match config.udp.backend {
                UdpBackend::Mmsg => {
                    let mut mmsg = Mmsg::new(endpoint, Arc::clone(stats), proxied, &config.udp);
                    service.serve(&mut mmsg)
                }
                UdpBackend::Plain => {
                    let mut plain = Plain::new(endpoint, Arc::clone(stats), proxied, &config.udp);
                    service.serve(&mut plain)
                }
            };
            let Err(error) = end else { return };
            let next = match &kept {
                Some(kept) => again(kept, &service.job, error),
                None => {
                    service.job.reporter.report(WorkerFaultKind::Socket(error));
                    rebind(&service.job)
                }
            };
            match next {
                Some(next) => socket = next,
                None => return,
            }
        }
    })
}

/// Returns the same socket after a pause; `None` once a stop is requested, or if no descriptor is left.
#[cold]
fn again(kept: &UdpSocket, job: &Job, error: io::Error) -> Option<UdpSocket> {
    job.reporter.report(WorkerFaultKind::Passed(error));
    std::thread::sleep(PASSED_PAUSE);
    if job.shutdown.triggered() { None } else { kept.try_clone().ok() }
}

/// Opens a new socket for the same address, however long it takes; `None` once a stop is requested.
#[cold]
fn rebind(job: &Job) -> Option<UdpSocket> {
    let (mut pause, longest) = REBIND_PAUSE;
    let mut reported = false;
    job.socket.clear();
    while !job.shutdown.triggered() {
        let made = open(job.id.local, &job.config, true).map_err(|refusal| refusal.cause).and_then(|new| {
            new.set_read_timeout(Some(job.config.udp.idle_wake))?;
            Ok(new)
        });
        match made {
            Ok(new) => {
                job.stats.rebinds.add(1);
                job.socket.set(&new);
                job.reporter.report(WorkerFaultKind::Recovered);
                return Some(new);
            }
            Err(e) if !reported => {
                reported = true;
                job.reporter.report(WorkerFaultKind::Rebind(e));
            }
            Err(_) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
    None
}
