//! Opens a front: the interface, the program, a socket for each queue, and the threads of its workers.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use transport::HandlerFactory;

use super::attachment::Attachment;
use super::bpf::{self, Attach, Passed};
use super::config::{XdpAttach, XdpConfig, XdpCopy, XdpMode};
use super::frame::{HEADROOM, IPV4, IPV6, Rules, UDP};
use super::interface::{self, Interface};
use super::program::{self, Targets};
use super::queue::{Measures, Queue};
use super::socket::{FrameLayout, QueueChoice, QueueSocket, StepError};
use crate::alarm::Alarm;
use crate::config::ListenerConfig;
use crate::fault::WorkerFaultKind;
use crate::job::Job;
use crate::refusal::{BindFault, BindRefusal};
use crate::udp::{DatagramService, Endpoint, ProxiedDatagrams};

/// Groups of frames for replies: the most batches of replies in transit at a time.
const REPLY_GROUPS: usize = 8;
/// Bytes that the kernel reserves at the start of a received frame (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: usize = 256;
/// Bytes of the link layer with a tag.
const LINK_LAYER_BYTES: usize = 18;
/// Longest IPv6 packet that every link carries (RFC 8200 §5). Routers do not fragment IPv6 packets, and the
/// front gets no information about the path MTU, so replies keep to it.
const IPV6_MIN_MTU: usize = 1280;

/// Open queues that receive frames, without workers.
pub(crate) struct XdpListener {
    sockets: Vec<QueueSocket>,
    attachment: Arc<Attachment>,
    listeners: Arc<[(SocketAddr, UdpSocket)]>,
    measures: Measures,
    driver: bool,
}

/// One queue of a front.
pub(crate) struct ListenerQueue {
    socket: QueueSocket,
    attachment: Arc<Attachment>,
    listeners: Arc<[(SocketAddr, UdpSocket)]>,
    measures: Measures,
}

impl XdpListener {
    /// Opens a socket on each queue and attaches the program. `listeners` are the sockets whose queries the
    /// front takes.
    pub(crate) fn open(
        listeners: Vec<(SocketAddr, UdpSocket)>,
        config: &ListenerConfig,
        xdp: &XdpConfig,
    ) -> Result<Self, BindRefusal> {
        let refuse = |(step, cause)| refusal(&xdp.interface, step, cause);
        let Some((_, any)) = listeners.first() else {
            let cause = io::Error::new(io::ErrorKind::InvalidInput, "no datagram listener was passed in");
            return Err(BindRefusal { fault: BindFault::Sockets, cause });
        };
        let interface = Interface::find(any, &xdp.interface).map_err(|e| refuse(("use the interface", e)))?;
        if interface.hides_tags {
            let text = format!("`ethtool -K {} rxvlan off` leaves the tags in frames", xdp.interface);
            return Err(refuse((TAGS, io::Error::new(io::ErrorKind::Unsupported, text))));
        }
        let targets = targets(&listeners, &interface).map_err(refuse)?;
        let queues = xdp.queues.unwrap_or(u32::MAX).clamp(1, interface.queues);
        let measures = measures(&interface, &targets, config);
        let Attached { attachment, map, driver } =
            attach(&interface, &targets, measures, xdp.attach).map_err(refuse)?;
        let layout = FrameLayout {
            frame: measures.frame,
            receive: xdp.frames.clamp(64, 1 << 16).next_power_of_two(),
            group: measures.batch,
            groups: REPLY_GROUPS,
        };
        let mut sockets = Vec::new();
        for queue in 0..queues {
            let socket = open_queue(interface.index, queue, layout, xdp.copy).map_err(refuse)?;
            bpf::insert_socket(&map, queue, &socket)
                .map_err(|e| refuse(("enter a socket in the map of sockets", e)))?;
            sockets.push(socket);
        }
        let (attachment, listeners) = (Arc::new(attachment), listeners.into());
        Ok(XdpListener { sockets, attachment, listeners, measures, driver })
    }

    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    pub(crate) fn mode(&self) -> XdpMode {
        XdpMode {
            driver: self.driver,
            zero_copy: self.sockets.iter().all(QueueSocket::zero_copy),
            queues: u32::try_from(self.sockets.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the queues, one for each worker.
    pub(crate) fn into_queues(self) -> impl Iterator<Item = ListenerQueue> {
        let XdpListener { sockets, attachment, listeners, measures, .. } = self;
        sockets.into_iter().map(move |socket| ListenerQueue {
            socket,
            attachment: Arc::clone(&attachment),
            listeners: Arc::clone(&listeners),
            measures,
        })
    }
}

/// Returns the addresses and ports whose queries the front takes.
fn targets(
    listeners: &[(SocketAddr, UdpSocket)],
    interface: &Interface,
) -> Result<Vec<(IpAddr, u16)>, StepError> {
    let mut targets = Vec::new();
    let own = interface::addresses(interface.index).map_err(|e| ("list the host's addresses", e))?;
    for (addr, _) in listeners {
        if addr.ip().is_unspecified() {
            let family = own.iter().filter(|ip| ip.is_ipv4() == addr.is_ipv4());
            targets.extend(family.map(|ip| (*ip, addr.port())));
        } else if !addr.ip().is_loopback() {
            targets.push((addr.ip(), addr.port()));
        }
    }
    targets.sort_unstable();
    targets.dedup();
    if targets.is_empty() {
        let cause = io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        return Err(("find an address to serve", cause));
    }
    Ok(targets)
}

fn measures(interface: &Interface, targets: &[(IpAddr, u16)], config: &ListenerConfig) -> Measures {
    let frame = if interface.mtu + LINK_LAYER_BYTES > 2048 - KERNEL_HEADROOM { 4096 } else { 2048 };
    let mut room = config.udp.max_reply.min(frame - HEADROOM);
    for (ip, _) in targets {
        let packet = match ip {
            IpAddr::V4(_) => interface.mtu.saturating_sub(IPV4 + UDP),
            IpAddr::V6(_) => interface.mtu.min(IPV6_MIN_MTU).saturating_sub(IPV6 + UDP),
        };
        room = room.min(packet);
    }
    let rules = Rules { unfinished_checksums: interface.unfinished_checksums, interface: interface.index };
    Measures { rules, frame, batch: config.udp.batch.clamp(1, 1024), room }
}

/// An attached program.
struct Attached {
    attachment: Attachment,
    /// The map of sockets, still empty.
    map: OwnedFd,
    /// Whether the program runs in the driver.
    driver: bool,
}

/// Loads the program and attaches it.
fn attach(
    interface: &Interface,
    targets: &[(IpAddr, u16)],
    measures: Measures,
    how: XdpAttach,
) -> Result<Attached, StepError> {
    use std::os::fd::AsRawFd;
    let map = bpf::sockets_map(interface.queues).map_err(|e| ("make a map of AF_XDP sockets", e))?;
    let passed = Passed::new().map_err(|e| ("make a map of counters", e))?;
    let targets =
        Targets { link: interface.link, sockets: targets, longest: measures.frame - KERNEL_HEADROOM };
    let code = program::assemble(&targets, map.as_raw_fd(), passed.map().as_raw_fd()).ok_or_else(|| {
        let text = format!("more than {} addresses", program::MOST_SOCKETS);
        ("make the program", io::Error::new(io::ErrorKind::InvalidInput, text))
    })?;
    let program = bpf::load(&code).map_err(|e| (LOAD, e))?;
    let attach = |how| bpf::attach(&program, interface.index, how);
    let (link, driver) = match how {
        XdpAttach::Driver => (attach(Attach::Driver), true),
        XdpAttach::Generic => (attach(Attach::Generic), false),
        XdpAttach::Auto => match attach(Attach::Driver) {
            Ok(link) => (Ok(link), true),
            Err(_) => (attach(Attach::Generic), false),
        },
    };
    let link = link.map_err(|e| ("attach the program to the interface", e))?;
    Ok(Attached { attachment: Attachment { link: Mutex::new(Some(link)), passed }, map, driver })
}

/// The step that fails if replies to tagged queries would be sent without a tag.
const TAGS: &str = "see the tags of its VLANs";

/// The step in which EACCES may be about the program and not about permissions.
const LOAD: &str = "load the program";

fn open_queue(
    interface: u32,
    queue: u32,
    layout: FrameLayout,
    copy: XdpCopy,
) -> Result<QueueSocket, StepError> {
    let open = |zero_copy| QueueSocket::open(QueueChoice { interface, queue, zero_copy }, layout);
    let deadline = Instant::now() + QUEUE_RELEASE_TIMEOUT;
    loop {
        let opened = match copy {
            XdpCopy::ZeroCopy => open(true),
            XdpCopy::Copy => open(false),
            XdpCopy::Auto => open(true).or_else(|_| open(false)),
        };
        match opened {
            Err((_, e)) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(RELEASE_STEP);
            }
            opened => return opened,
        }
    }
}

/// The kernel releases the queue of a closed socket with a delay: the timeout for that, and the interval of
/// retries.
const QUEUE_RELEASE_TIMEOUT: Duration = Duration::from_millis(500);
const RELEASE_STEP: Duration = Duration::from_millis(5);

/// Returns the error of a failed step, in the operator's terms.
fn refusal(interface: &str, step: &'static str, cause: io::Error) -> BindRefusal {
    let fault = match cause.raw_os_error() {
        _ if step == TAGS => BindFault::XdpTags,
        Some(libc::ENODEV | libc::ENXIO) => BindFault::NoSuchInterface,
        Some(libc::EADDRNOTAVAIL) => BindFault::NoSuchAddress,
        Some(libc::EPERM) => BindFault::XdpDenied,
        Some(libc::EACCES) if step != LOAD => BindFault::XdpDenied,
        Some(libc::EBUSY | libc::EEXIST) => BindFault::XdpBusy,
        Some(libc::ENOMEM | libc::ENOBUFS) => BindFault::XdpMemory,
        Some(libc::EMFILE | libc::ENFILE) => BindFault::OutOfDescriptors,
        _ => BindFault::XdpUnsupported,
    };
    let cause = io::Error::new(cause.kind(), format!("{interface}: cannot {step}: {cause}"));
    BindRefusal { fault, cause }
}

/// Starts a worker thread on a queue.
pub(crate) fn spawn<F: HandlerFactory>(
    queue: ListenerQueue,
    factory: Arc<F>,
    job: Job,
) -> io::Result<JoinHandle<()>> {
    let ListenerQueue { socket, attachment, listeners, measures } = queue;
    let mut endpoints = Vec::new();
    for (addr, socket) in listeners.iter() {
        endpoints.push(Endpoint::new(socket.try_clone()?, *addr, job.config.udp.max_reply));
    }
    let alarm = Alarm::new()?;
    let name = format!("xdp-{}-{}", job.id.local.port(), job.id.index);
    std::thread::Builder::new().name(name).spawn(move || {
        let (stats, udp, reporter) = (Arc::clone(&job.stats), job.config.udp.clone(), job.reporter.clone());
        let proxied = ProxiedDatagrams::new(&job.proxies, Arc::clone(&stats));
        let mut service = DatagramService::new(factory, alarm, job);
        let mut queue = Queue::new(socket, attachment, endpoints, stats, proxied, measures, &udp);
        if let Err(error) = service.serve(&mut queue) {
            // Dropping the socket removes the queue's entry from the map, and its frames pass to the kernel.
            drop(queue);
            reporter.report(WorkerFaultKind::Xdp(error));
        }
    })
}
