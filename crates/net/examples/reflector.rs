//! Reflects every DNS query with its QR bit set: what the transports cost when nobody answers anything. The floor
//! of every benchmark of the server.
//!
//! `reflector [--addr 127.0.0.1:5300] [--workers N] [--tcp] [--plain] [--spread hash|cpu|random] [--pin]
//! [--batch N] [--no-segments] [--seconds N] [--xdp INTERFACE [--xdp-queues N] [--xdp-driver | --xdp-generic]
//! [--xdp-copy | --xdp-zero-copy]]`
//!
//! It serves until its standard input ends or the seconds have passed, then prints its counters.

use std::io::Read;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use net::{
    Batch, Config, Context, Handler, Listener, Outcome, Spread, Transport, UdpBackend, Worker, XdpAttach,
    XdpConfig, XdpCopy,
};

struct Reflector;

impl Handler for Reflector {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        for i in 0..batch.len() {
            let (query, out) = batch.parts(i);
            let n = query.packet.len();
            if n > out.len() || query.packet[2] & 0x80 != 0 {
                continue;
            }
            out[..n].copy_from_slice(query.packet);
            out[2] |= 0x80;
            batch.set(i, Outcome::Reply(n));
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reflector: {error}");
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

/// Takes one of the options of the AF_XDP front.
fn xdp_option(
    xdp: &mut XdpConfig,
    option: &str,
    value: &mut impl FnMut() -> Result<String, String>,
) -> Result<(), Failure> {
    match option {
        "--xdp-queues" => xdp.queues = Some(value()?.parse()?),
        "--xdp-driver" => xdp.attach = XdpAttach::Driver,
        "--xdp-generic" => xdp.attach = XdpAttach::Generic,
        "--xdp-copy" => xdp.copy = XdpCopy::Copy,
        "--xdp-zero-copy" => xdp.copy = XdpCopy::ZeroCopy,
        other => return Err(format!("unknown argument {other}").into()),
    }
    Ok(())
}

fn run() -> Result<(), Failure> {
    let mut addr: SocketAddr = ([127, 0, 0, 1], 5300).into();
    let mut config = Config::default();
    let mut seconds = None;
    let mut transports = vec![Transport::Udp];
    let mut xdp: Option<XdpConfig> = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--addr" => addr = value()?.parse()?,
            "--workers" => config.workers = value()?.parse()?,
            "--batch" => config.udp.batch = value()?.parse()?,
            "--seconds" => seconds = Some(Duration::from_secs(value()?.parse()?)),
            "--tcp" => transports.push(Transport::Tcp),
            "--plain" => config.udp.backend = UdpBackend::Plain,
            "--no-segments" => config.udp.segments = false,
            "--pin" => config.pin_cpus = true,
            "--spread" => {
                config.spread = match value()?.as_str() {
                    "hash" => Spread::Hash,
                    "cpu" => Spread::Cpu,
                    "random" => Spread::Random,
                    other => return Err(format!("unknown spread {other}").into()),
                }
            }
            "--xdp" => xdp = Some(XdpConfig::new(value()?)),
            option if option.starts_with("--xdp-") => {
                let xdp = xdp.as_mut().ok_or_else(|| format!("{option} comes after --xdp"))?;
                xdp_option(xdp, option, &mut value)?;
            }
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let context = Context::default().on_fault(|fault| eprintln!("{fault}"));
    let mut running = Vec::new();
    for transport in transports {
        let bound = Listener::bind(addr, transport, &config)?;
        if let (Transport::Udp, Some(xdp)) = (transport, &xdp) {
            match Listener::xdp(&[&bound], &config, xdp) {
                Ok(front) => {
                    println!("{:?}", front.xdp_mode());
                    running.push(front.serve(|_: Worker| Reflector, &context)?);
                }
                Err(error) => eprintln!("reflector: {error}; serving through sockets alone"),
            }
        }
        running.push(bound.serve(|_: Worker| Reflector, &context)?);
    }
    println!("reflecting on {addr} with {} workers", config.workers);
    match seconds {
        Some(time) => std::thread::sleep(time),
        None => {
            std::io::stdin().read_to_end(&mut Vec::new())?;
        }
    }
    for listener in &running {
        listener.stop();
    }
    for listener in running {
        let transport = listener.transport();
        let totals = listener.join().totals();
        let counters: Vec<String> =
            totals.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name}={n}")).collect();
        println!("{transport}: {}", counters.join(" "));
    }
    Ok(())
}
