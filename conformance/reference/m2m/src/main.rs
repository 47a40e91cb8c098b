//! Reads lines of `request`, `response` or `decode` and bytes in hex, and prints bytes in hex, or `error` and why.

use m2m::codec::m2m::M2MFrame;
use std::io::{self, BufRead, Write};

fn answer(line: &str) -> Result<Vec<u8>, String> {
    let (what, hex) = line.split_once(' ').ok_or("no bytes")?;
    let bytes: Result<Vec<u8>, _> = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16)).collect();
    let bytes = bytes.map_err(|error| error.to_string())?;
    if what == "decode" {
        let frame = M2MFrame::decode(&bytes).map_err(|error| error.to_string())?;
        return Ok(frame.json().as_bytes().to_vec());
    }
    let json = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    let frame = if what == "request" { M2MFrame::new_request(&json) } else { M2MFrame::new_response(&json) };
    frame.and_then(|frame| frame.encode()).map_err(|error| error.to_string())
}

fn main() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        match answer(line?.trim_end()) {
            Ok(bytes) => println!("{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
            Err(why) => println!("error {}", why.replace('\n', " ")),
        }
        io::stdout().flush()?;
    }
    Ok(())
}
