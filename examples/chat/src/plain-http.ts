/**
 * What an exchange would have taken as plain HTTP/1.1, measured on the exchange itself: start lines, the
 * header fields that were said, bodies. What a browser adds on its own (its name, cookies, what it
 * accepts) and how TLS and chunks frame it are left out, as are the frame headers of the WebSocket.
 */
export interface PlainHttpSize {
  /** Bytes of the request. */
  sent: number;
  /** Bytes of the response so far. */
  received: number;
}

const utf8 = new TextEncoder();
const sizeOf = (text: string) => utf8.encode(text).length;

/** `fetch` that adds to `size` what passes through it. Only bodies of text are measured. */
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
