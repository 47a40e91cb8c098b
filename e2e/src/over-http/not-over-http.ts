/** Tests of sessions that do not apply to sessions over HTTP. The run with `OVER_HTTP=1` fails if one of them passes or is not there. */

export interface NotOverHttp {
  /** The beginning of the path of their file, in `e2e/src`. */
  readonly file: string;
  /** The beginnings of their full names. */
  readonly tests: readonly string[];
  /** The end of a sentence that begins with "they". */
  readonly because: string;
}

const ATTACHED =
  'have a server on an HTTP server of its application, which hands over upgrades and no requests';

export const NOT_OVER_HTTP: readonly NotOverHttp[] = [
  {
    file: 'session/early-hello',
    tests: [
      'over net, a client says HELLO in',
      'over net, a client resumes its session so too',
      'over net, a client with ',
      'over ws, a client says HELLO in',
      'over ws, a client resumes its session so too',
      'over ws, a client with ',
      'a WebSocket class that does not tell what the server has selected',
      'a server that does not know HELLO in requests or refuses such a request with',
    ],
    because: 'read HELLO in the header of an upgrade request; over HTTP it is the body of a POST',
  },
  {
    file: 'session/attach',
    tests: [
      'an upgrade for another path is answered with the hint that listen gives',
      'other listeners keep their upgrades beyond the deadline ws that takes it at once',
      'other listeners keep their upgrades beyond the deadline socket.io and engine.io',
      'other listeners keep their upgrades beyond the deadline Vite, which leaves what is not its',
      'other listeners keep their upgrades beyond the deadline a second session server at another path',
    ],
    because: ATTACHED,
  },
  {
    file: 'session/closing',
    tests: ['a session that its server closes with a code tells its client in m2m.v1.json'],
    because: 'speak m2m.v1.json, which HTTP does not carry',
  },
  {
    file: 'session/same-hello',
    tests: ['a client says the same nonce until it has received ACCEPT'],
    because: 'have a server of their own that understands WebSockets only',
  },
  {
    file: 'admission/admission',
    tests: ['a client that is asked to wait resumes its session no earlier'],
    because: 'have a server of their own that understands WebSockets only',
  },
  {
    file: 'admission/admission',
    tests: ['a scan is reported in DATA if the client asks for it, in m2m.v1.json'],
    because: 'speak m2m.v1.json, which HTTP does not carry',
  },
  {
    file: 'features/features',
    tests: ['WebSockets at paths of features count once, also if they carry sessions'],
    because: 'have sessions over the WebSocket of a feature',
  },
  {
    file: 'resume/resume',
    tests: [
      'a lost connection is replaced although the server answers later than an attempt may wait at first',
      'a lost connection is not replaced any more once the session has ended',
    ],
    because: 'have a WebSocket class of their own that delays or counts',
  },
  {
    file: 'http/blob',
    tests: ['a Blob in m2m.v1.json arrives as its bytes'],
    because: 'speak m2m.v1.json, which HTTP does not carry',
  },
  {
    file: 'limits/loading',
    tests: [
      'a connection that is lost while the client loads is replaced',
      'a connection that is lost while the client loads ends the attempt',
    ],
    because: 'have a WebSocket class of their own that loses connections',
  },
  {
    file: 'operate/admin',
    tests: ['the admin port says which sessions are carried over HTTP'],
    because: 'have a session over a WebSocket beside one over HTTP',
  },
  {
    file: 'operate/admin',
    tests: ['the admin port remembers what has happened to a session and what the server did'],
    because: 'have a WebSocket class of their own that closes as that of a page does',
  },
  {
    file: 'operate/metrics',
    tests: ['metrics tell how long resumed sessions were away'],
    because:
      'need a server that sees a loss at once; over HTTP it waits a second for a close, and by then the client is back',
  },
  {
    file: 'cluster/move',
    tests: [
      'a session that another node leads continues there when its own node drains',
      'a node that drains moves a session that is never calm at its deadline',
    ],
    because: 'count connections of TCP; over HTTP each request may open one',
  },
  {
    file: 'cluster/drain',
    tests: ['a rolling replacement under 200 live streams loses nothing'],
    because:
      'have two servers on one port that no cluster joins: a request over a new connection reaches the one without its stream',
  },
  {
    file: 'docs/docs-examples',
    tests: ['guide/write-a-feature.md sessions at a second path'],
    because: ATTACHED,
  },
  {
    file: 'docs/how-do-i',
    tests: [
      "How do I …? 'Put it beside Express, Fastify, NestJ…'",
      "How do I …? 'Log in with a cookie'",
      "How do I …? 'Allow CORS'",
    ],
    because: ATTACHED,
  },
  {
    file: 'docs/newcomer',
    tests: ['options attach twice to one HTTP server is refused, and the first one continues'],
    because: ATTACHED,
  },
  {
    file: 'field/n19-wrong-beside',
    tests: [
      'works beside ws with { server, path } that comes after it',
      'says what is wrong beside ws with { server, path } that came before it',
    ],
    because: ATTACHED,
  },
  {
    file: 'field/s15-knock-while-starting',
    tests: ['admits nobody before what it needs is loaded, with attach'],
    because: ATTACHED,
  },
  {
    file: 'field/p13-wire-bytes',
    tests: [
      'the bytes of the metrics, with the wire net are those of a proxy',
      'the bytes of the metrics, with the wire ws are those of a proxy',
    ],
    because:
      'count all bytes of a network, which have heads of requests over HTTP; the metrics count what sessions send',
  },
  {
    file: 'field/p13-wire-bytes',
    tests: [
      'the bytes of the metrics, with the wire net have pings',
      'the bytes of the metrics, with the wire ws have pings',
    ],
    because: 'speak m2m.v1.json, which HTTP does not carry',
  },
];
