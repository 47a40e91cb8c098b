import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { createSecureContext } from 'node:tls';
import { isProtocolError } from '@parlance/protocol';
import type { ClusterOptions, Engine, Server } from '@parlance/server';
import { splitList } from '../base/command.js';
import { CommandFailure, ExitCode } from '../base/failure.js';
import { engineAddress, openEngine } from '../engine/engine-address.js';

/** How `serve` joins a cluster. */
export interface ClusterFlags {
  /** Of Redis or Postgres. */
  readonly url: string;
  /** For other nodes; it listens on the address of the sessions. */
  readonly peerPort: number;
  readonly advertise: string | undefined;
  /** Allows `ws:` between machines. */
  readonly isInsecure: boolean;
  readonly secret: string | undefined;
  readonly tls?: PeerTlsFlags | undefined;
}

/** Files in PEM. */
export interface PeerTlsFlags {
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** @default the authorities that Node trusts */
  readonly ca?: string | undefined;
  /** Nodes prove themselves by certificates, in addition to tickets. */
  readonly isMutual: boolean;
}

/** Bytes. */
const MIN_SECRET = 16;
const SECRET = 'PARLANCE_CLUSTER_SECRET';

/** Options by their names in messages, and the flags that set them. */
const FLAG_NAMES: readonly (readonly [RegExp, string])[] = [
  [/\bcluster\.tls\b/g, '--peer-cert and --peer-key'],
  [/\bcluster\.insecure\b/g, '--peer-insecure'],
  [/\bcluster\.advertise\b/g, '--advertise'],
  [/\bcluster\.listen\.port\b/g, '--peer-port'],
  [/^cluster: /, ''],
];

/** @throws {CommandFailure} one sentence that says which flag is wrong and what to do. */
export async function clusterOptions(
  { url, peerPort, advertise, isInsecure, secret, tls: files }: ClusterFlags,
  host: string,
): Promise<{ readonly engine: Engine; readonly node: ClusterOptions }> {
  const secrets = secretsOf(secret);
  const tls = files && peerTls(files);
  if (tls !== undefined) {
    if (isInsecure) throw wrong('--peer-insecure is for nodes without certificates: leave it or them out');
    assertNamed(tls.cert, advertise, host);
  }
  const node: ClusterOptions = {
    listen: { host, port: peerPort },
    advertise,
    secret: secrets,
    insecure: isInsecure,
    tls,
  };
  return { engine: await openEngine(engineAddress(url), '--cluster'), node };
}

/** Creates a server. @throws {CommandFailure} if options of its node are wrong, with the flags that set them. */
export function namingFlags(create: () => Server): Server {
  try {
    return create();
  } catch (error) {
    if (!isProtocolError(error) || !error.message.startsWith('cluster')) throw error;
    throw wrong(FLAG_NAMES.reduce((text, [name, flag]) => text.replace(name, flag), error.message));
  }
}

function secretsOf(secret: string | undefined): readonly string[] {
  const secrets = splitList([secret ?? '']);
  if (secrets.length === 0)
    throw wrong(
      `a cluster needs a secret that all nodes share: set ${SECRET}, such as to \`openssl rand -hex 32\``,
    );
  if (secrets.some((each) => Buffer.byteLength(each) < MIN_SECRET))
    throw wrong(
      `${SECRET} needs at least ${MIN_SECRET} bytes for each secret: set it to \`openssl rand -hex 32\``,
    );
  return secrets;
}

interface PeerTls {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
  readonly requestCert?: true;
  readonly rejectUnauthorized?: true;
}

function peerTls({ cert: certFile, key: keyFile, ca: caFile, isMutual }: PeerTlsFlags): PeerTls {
  if (certFile === undefined || keyFile === undefined) {
    const missing = certFile === undefined ? '--peer-cert' : '--peer-key';
    throw wrong(`TLS between nodes needs a certificate and its key: name a file in PEM with ${missing} too`);
  }
  if (isMutual && caFile === undefined)
    throw wrong(
      '--peer-mutual needs --peer-ca: name the authority that has signed the certificates of all nodes',
    );
  const [cert, key] = [read('--peer-cert', certFile), read('--peer-key', keyFile)];
  const ca = caFile === undefined ? undefined : read('--peer-ca', caFile);
  const own = certificateIn(cert, '--peer-cert', certFile);
  if (ca !== undefined) certificateIn(ca, '--peer-ca', caFile as string);
  try {
    createSecureContext({ cert, key });
  } catch (cause) {
    const why = `${keyFile} is not the key of ${certFile} (${messageOf(cause)})`;
    throw wrong(`--peer-key: ${why}; name the key, in PEM and without a passphrase`, cause);
  }
  const now = Date.now();
  if (Date.parse(own.validTo) < now)
    throw wrong(`--peer-cert: ${certFile} has expired at ${own.validTo}, so no node connects; renew it`);
  if (Date.parse(own.validFrom) > now)
    throw wrong(
      `--peer-cert: ${certFile} begins to be valid at ${own.validFrom}; check the clock of this machine`,
    );
  return {
    cert,
    key,
    ...(ca && { ca }),
    ...(isMutual && { requestCert: true, rejectUnauthorized: true }),
  };
}

function read(flag: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw wrong(
      `${flag}: ${file} cannot be read (${code}); name a file in PEM that this user may read`,
      cause,
    );
  }
}

function certificateIn(pem: Buffer, flag: string, file: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw wrong(
      `${flag}: ${file} is not a certificate in PEM; it begins with -----BEGIN CERTIFICATE-----`,
      cause,
    );
  }
}

/** Other nodes check the name by which they reach this one. An address that is malformed is refused later. */
function assertNamed(cert: Buffer, advertise: string | undefined, host: string): void {
  const url = advertise !== undefined && URL.canParse(advertise) ? new URL(advertise) : undefined;
  if (advertise !== undefined && url === undefined) return;
  if (url?.protocol === 'ws:')
    throw wrong('--advertise must begin with wss: because --peer-cert makes the port speak TLS');
  const name = url === undefined ? host : url.hostname.replace(/^\[|\]$/g, '');
  if (isEvery(name)) return;
  const certificate = new X509Certificate(cert);
  const isNamed = isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name);
  if (isNamed !== undefined) return;
  const where = url === undefined ? '--host' : '--advertise';
  throw wrong(
    `--peer-cert does not name ${name} of ${where}, so no node connects; add it to the certificate (subjectAltName), or advertise a name that it has`,
  );
}

const isEvery = (host: string) => host === '0.0.0.0' || host === '::' || host === '';

function wrong(message: string, cause?: unknown): CommandFailure {
  return new CommandFailure(message, ExitCode.USAGE, { cause });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
