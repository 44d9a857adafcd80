//! Writes and reads the image of a zone and tells the times.
//!
//! `image FILE APEX IMAGE` reads a master file and writes its image; `image IMAGE` reads that.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use wire::NameBuf;
use wire::hash::HashKey;
use zone::image::{self, Image, Making};
use zone::{LoadConfig, load_file};

fn main() -> Result<(), Box<dyn Error>> {
    let key = HashKey::new([1, 2, 3]);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let start = Instant::now();
    let zone = match args.as_slice() {
        [file, apex, to] => {
            let apex: NameBuf = apex.parse()?;
            let loaded = load_file(Path::new(file), apex.as_name(), &key, &LoadConfig::default())?;
            println!("text read in {:.3} s", start.elapsed().as_secs_f64());
            let making = Making { sources: loaded.sources.unwrap_or_default(), warnings: 0 };
            let start = Instant::now();
            let octets = image::write(Path::new(to), &loaded.zone, &making)?;
            println!("image of {octets} octets written in {:.3} s", start.elapsed().as_secs_f64());
            loaded.zone
        }
        [from] => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let zone = Image::open(Path::new(from))?.read(&key, threads)?;
            println!("image read in {:.3} s by {threads} threads", start.elapsed().as_secs_f64());
            zone
        }
        _ => return Err("use: image FILE APEX IMAGE | image IMAGE".into()),
    };
    println!("{zone:?}, {} octets", zone.memory());
    Ok(())
}
