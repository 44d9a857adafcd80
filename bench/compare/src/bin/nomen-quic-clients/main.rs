//! Clients over QUIC for `bench/connections` and `bench/encrypted`: ones that misuse a server, and ones that
//! ask as fast as it answers. All run on one thread.

#![forbid(unsafe_code)]

mod http3;
mod load;
mod misuse;
mod muted;
mod settings;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use load::Protocol;
use misuse::Misuse;

/// Clients of DNS over QUIC and HTTP/3.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Misuses a server until the standard input ends. Prints five lines a second: connections begun so far,
    /// connections there are, and those of them whose handshake is complete.
    Misuse {
        #[arg(long)]
        kind: Misuse,
        #[arg(long)]
        server: SocketAddr,
        /// Connections at a time, at most a hundred of each address.
        #[arg(long, default_value_t = 1000)]
        clients: usize,
        /// Most new connections a second.
        #[arg(long, default_value_t = 400)]
        rate: usize,
    },
    /// Asks for the address of a name again and again. Prints how many queries were answered, how many were
    /// not, and how many connections there were; of handshakes, how many were completed and how many failed.
    Load {
        #[arg(long)]
        protocol: Protocol,
        #[arg(long)]
        server: SocketAddr,
        #[arg(long, default_value = "www.example")]
        name: String,
        #[arg(long, default_value_t = 4)]
        connections: usize,
        /// Queries of each connection that may be on the way.
        #[arg(long, default_value_t = 25)]
        queries: usize,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("quic-clients: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = LocalSet::new().block_on(&runtime, async {
        match arguments.what {
            What::Misuse { kind, server, clients, rate } => misuse::run(kind, server, clients, rate).await,
            What::Load { protocol, server, name, connections, queries, seconds } => {
                let query = load::query(&name);
                let time = Duration::from_secs(seconds);
                let done = load::run(protocol, server, &query, (connections, queries), time).await?;
                println!("{} answered, {} lost, {} connections", done.answered, done.lost, done.connections);
                Ok(())
            }
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quic-clients: {error}");
            ExitCode::FAILURE
        }
    }
}
