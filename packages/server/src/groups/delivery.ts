import type { Algorithm, BodyToSend, CodedBody } from '@parlance/protocol';
import { type BodyCoder, encodeContent } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { SharedCoders } from './shared-coders.js';

/** A message to a group, before it is coded for anyone. */
export interface GroupMessage {
  /** A `Blob` was read. */
  readonly content: PlainContent;
  readonly algorithm: Algorithm | 'CONTEXT' | 'auto' | undefined;
  readonly secret: boolean | undefined;
  /** The ID of a session that does not get it. */
  readonly except: string | undefined;
  /** Bytes of the content, about. */
  readonly size: number;
}

export type PlainContent = Parameters<typeof encodeContent>[0];

/** One message, coded once for all members that can read the same bytes. */
export class SharedCoding {
  readonly #coders: SharedCoders;
  readonly #message: GroupMessage;
  readonly #coded = new Map<BodyCoder, CodedBody | Promise<CodedBody>>();
  count = 0;

  constructor(coders: SharedCoders, message: GroupMessage) {
    this.#coders = coders;
    this.#message = message;
  }

  /** @throws {ProtocolError} as `BodyCoder.encode`. */
  for(member: ServerEndpoint): BodyToSend | Promise<BodyToSend> {
    const { content, algorithm, secret } = this.#message;
    // Context differs from member to member.
    const isOwn = algorithm === 'CONTEXT';
    const coder = isOwn ? member.coder : this.#coders.for(member);
    let coded = this.#coded.get(coder);
    if (coded === undefined) {
      this.count++;
      coded = encodeContent(content, coder, { algorithm, compressAlone: secret, isOwned: true });
      if (!isOwn) this.#coded.set(coder, coded);
    }
    return coded;
  }
}
