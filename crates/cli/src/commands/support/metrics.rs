//! The metrics of a relay that runs on this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use postroom_core::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gather::Unanswered;

/// Most bytes of an answer.
const BYTES_MAX: u64 = 8 << 20;

/// What `/metrics` answers.
pub(super) async fn ask(address: SocketAddr, token: Option<&Secret>) -> Result<String, Unanswered> {
    let here = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(here, address.port());
    let answer = get(address, token).await.map_err(|error| {
        let text = format!("no relay answers on {address}: {error}");
        Unanswered { kind: "unreachable".to_owned(), text }
    })?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => {
            let said = answer.lines().next().unwrap_or_default();
            Err(Unanswered { kind: "refused".to_owned(), text: format!("/metrics on {address} answers {said:?}") })
        }
    }
}

async fn get(address: SocketAddr, token: Option<&Secret>) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let token = token.map(|token| format!("authorization: Bearer {}\r\n", token.expose())).unwrap_or_default();
    // 1.0: the body comes as it is, and ends with the connection.
    let request = format!("GET /metrics HTTP/1.0\r\nhost: {address}\r\n{token}\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    connection.take(BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
