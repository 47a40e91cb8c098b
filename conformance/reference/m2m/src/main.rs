//! Reads lines of a word and bytes in hex, and prints bytes in hex, or `error` and why.
//!
//! `request`, `response` and `decode` are about frames; the other words, about one session at a time.

use m2m::codec::m2m::M2MFrame;
use m2m::protocol::CompressionCaps;
use m2m::{Algorithm, Capabilities, Message, Session};
use std::error::Error;
use std::io::{self, BufRead, Write};

fn answer(session: &mut Session, line: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let (what, hex) = line.split_once(' ').unwrap_or((line, ""));
    let bytes: Result<Vec<u8>, _> = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16)).collect();
    let bytes = bytes?;
    if what == "decode" {
        return Ok(M2MFrame::decode(&bytes)?.json().as_bytes().to_vec());
    }
    let text = String::from_utf8(bytes)?;
    Ok(match what {
        "request" => M2MFrame::new_request(&text)?.encode()?,
        "response" => M2MFrame::new_response(&text)?.encode()?,
        "session" => {
            *session = session_with(&text)?;
            Vec::new()
        }
        "hello" => session.create_hello().to_json()?.into_bytes(),
        "process" => match session.process_message(&Message::from_json(&text)?)? {
            Some(message) => message.to_json()?.into_bytes(),
            None => Vec::new(),
        },
        "compress" => session.compress(&text)?.to_json()?.into_bytes(),
        "decompress" => session.decompress(&Message::from_json(&text)?)?.into_bytes(),
        "close" => session.close().to_json()?.into_bytes(),
        "state" => format!("{:?}", session.state()).into_bytes(),
        _ => return Err(format!("unknown word {what}").into()),
    })
}

/// A session of an agent `m2m-reference` with one algorithm.
fn session_with(algorithm: &str) -> Result<Session, Box<dyn Error>> {
    let known = Algorithm::all().iter().find(|known| known.name() == algorithm).ok_or("unknown algorithm")?;
    let mut capabilities = Capabilities::new("m2m-reference");
    capabilities.agent_id = "m2m-reference".to_string();
    Ok(Session::new(capabilities.with_compression(CompressionCaps::default().with_algorithms(vec![*known]))))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut session = Session::new(Capabilities::default());
    for line in io::stdin().lock().lines() {
        match answer(&mut session, line?.trim_end()) {
            Ok(bytes) => println!("{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
            Err(why) => println!("error {}", why.to_string().replace('\n', " ")),
        }
        io::stdout().flush()?;
    }
    Ok(())
}
