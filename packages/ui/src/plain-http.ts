/**
 * Size of an exchange as plain HTTP/1.1: start lines, the header fields that were set, and bodies. Headers that
 * a browser adds (user agent, cookies, accept) and the framing of TLS and chunks are left out, and so are the
 * frame headers of the WebSocket.
 */
export interface PlainHttpSize {
  /** Bytes of the request. */
  sent: number;
  /** Bytes of the response so far. */
  received: number;
}

const utf8 = new TextEncoder();
const sizeOf = (text: string) => utf8.encode(text).length;

/** A `fetch` that adds the size of each exchange to `size`. Measures only text bodies. */
export function measureFetch(fetch: typeof globalThis.fetch, size: PlainHttpSize): typeof globalThis.fetch {
  return async (input, init) => {
    size.sent += requestSize(String(input instanceof Request ? input.url : input), init);
    const response = await fetch(input, init);
    size.received += sizeOf(`HTTP/1.1 ${response.status} ${response.statusText}\r\n`);
    size.received += headersSize(response.headers);
    if (response.body === null) return response;
    const counted = response.body.pipeThrough(
      new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
        transform(chunk, controller) {
          size.received += chunk.length;
          controller.enqueue(chunk);
        },
      }),
    );
    return new Response(counted, response);
  };
}

function requestSize(address: string, { method = 'GET', headers, body }: RequestInit = {}): number {
  const { host, pathname, search } = new URL(address);
  const length = typeof body === 'string' ? sizeOf(body) : 0;
  const own = new Headers(headers);
  own.set('host', host);
  own.set('content-length', String(length));
  return sizeOf(`${method} ${pathname}${search} HTTP/1.1\r\n`) + headersSize(own) + length;
}

function headersSize(headers: Headers): number {
  return [...headers].reduce((sum, [name, value]) => sum + sizeOf(`${name}: ${value}\r\n`), sizeOf('\r\n'));
}
