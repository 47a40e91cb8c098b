import { describe, expect, it } from 'vitest';
import { visit } from '../../../conformance/peers/parlance/client.js';
import { FAULTS as OURS, startFaulty } from '../../../conformance/peers/parlance/faults.js';
import { HTTP_FAULTS, startFaultyHttp } from '../../../conformance/peers/parlance/http-faults.js';
import { serve } from '../../../conformance/peers/parlance/server.js';
import { Dialer, type Door, Listener } from '../../../conformance/src/kit/door.js';
import { type PythonPeer, pythonMissing, startPython } from '../../../conformance/src/kit/python.js';
import { run } from '../../../conformance/src/kit/run.js';

/**
 * A peer with one fault fails at the part of the specification that it breaks, and nowhere else. By default the scenarios
 * around the fault run; with `CONFORMANCE_ALL` set, all of them do.
 */

interface Fault {
  readonly name: string;
  /** The scenarios that have to fail. */
  readonly fails: readonly string[];
  readonly client?: boolean;
  /** A fault of our own peer, in what the one in Python lacks. */
  readonly isOurs?: boolean;
}

const FAULTS: readonly Fault[] = [
  { name: 'accepts_any_version', fails: ['handshake/version'] },
  { name: 'prefers_its_own_order', fails: ['handshake/order-of-algorithms'] },
  { name: 'accepts_anything', fails: ['handshake/accept-extension'], client: true },
  { name: 'forgets_varint_form', fails: ['streams/long-varint'] },
  { name: 'ends_without_parts', fails: ['streams/parts'] },
  { name: 'ignores_cancel', fails: ['cancel/reaches-the-handler'] },
  { name: 'ignores_credit', fails: ['credit/reply-waits'] },
  { name: 'forgets_body_charge', fails: ['credit/reply-waits'] },
  { name: 'grants_nothing', fails: ['credit/is-granted'] },
  { name: 'states_wrong_total', fails: ['fragments/large-reply'] },
  { name: 'takes_any_total', fails: ['fragments/too-few', 'fragments/too-many'] },
  { name: 'never_acknowledges', fails: ['messages/acknowledged'] },
  { name: 'repeats_new_frames', fails: ['resume/same-bytes'] },
  { name: 'repeats_backwards', fails: ['resume/same-bytes'] },
  { name: 'trusts_received', fails: ['resume/received-too-little'] },
  { name: 'compares_spelling', fails: ['resume/same-meaning'] },
  { name: 'keeps_no_messages', fails: ['context/reads'] },
  { name: 'evicts_newest', fails: ['context/room-by-bytes'] },
  { name: 'ends_without_crc', fails: ['context/parts-of-the-peer'] },
  { name: 'believes_tensors', fails: ['tensors/wrong-checksum'] },
  { name: 'answers_undecodable_with_internal', fails: ['codecs/damaged-brotli'] },
  { name: 'closes_at_once', fails: ['closing/kit-begins'] },
  { name: 'takes_text_for_binary', fails: ['refusals/text-like-an-acknowledgement'] },
  { name: 'ends_inside_bodies', fails: ['streams/end-inside-a-body'] },
  { name: 'opens_one_too_many', fails: ['streams/most-of-the-peer'] },
  { name: 'acknowledges_one_too_many', fails: ['messages/acknowledged'] },
  { name: 'accepts_old_attempts', fails: ['resume/stale-attempt', 'resume/attempt-of-before'] },
  { name: 'repeats_received_frames', fails: ['resume/same-bytes'] },
  { name: 'begins_bodies_again', fails: ['resume/inside-a-body-of-the-peer'] },
  { name: 'wrong_token_raises_attempt', fails: ['resume/wrong-token-keeps-the-attempt'] },
  { name: 'frees_cancelled_slots', fails: ['cancel/cancelled-keeps-its-slot'] },
  { name: 'frees_slots_at_cancel', fails: ['cancel/keeps-the-slot-until-its-end'] },
  { name: 'frees_slots_at_cancel', fails: ['cancel/keeps-the-slot-until-its-end'], client: true },
  { name: 'frees_refused_tensors', fails: ['tensors/refused-keeps-its-slot'] },
  { name: 'keeps_refused_tensors', fails: ['tensors/refused-frees-its-slot'] },
  { name: 'takes_null_for_unlimited', fails: ['credit/null-beside-std'] },
  { name: 'states_std_unasked', fails: ['handshake/no-std-unless-listed'] },
  { name: 'acknowledges_behind_close', fails: ['closing/acknowledges-before-close'] },
  { name: 'replaces_bases_in_use', fails: ['context/replaces-a-base-in-use'] },
  { name: 'moves_messages', fails: ['resume/moves-nothing'], client: true },
  { name: 'forgets_late_frames', fails: ['streams/late-frames-count'] },
  { name: 'charges_coded_bytes', fails: ['credit/context-is-charged'] },
  { name: 'takes_any_expansion', fails: ['fragments/expanded-too-large'] },
  { name: 'nests_without_end', fails: ['messages/depth'] },
  { name: 'states_credit_of_messages_only', fails: ['resume/credit-of-streams-again'] },
  { name: 'states_credit_first', fails: ['resume/cut-at-every-frame-of-the-peer'] },
  { name: 'agrees_twice', fails: ['handshake/agrees-once'] },
  { name: 'takes_long_extensions', fails: ['handshake/long-extension'] },
  { name: 'keeps_half', fails: ['context/keeps-what-it-states'] },
  { name: 'negotiates_deflate', fails: ['handshake/no-extension'] },
  { name: 'leaves_unacknowledged', fails: ['closing/waits-for-acknowledgement'] },
];

const OUR_FAULTS: readonly Fault[] = [
  { name: 'takes_another_nonce', fails: ['nonce/is-repeated'], client: true },
  { name: 'resumes_with_its_nonce', fails: ['nonce/is-repeated'], client: true },
  { name: 'forgets_nonces', fails: ['nonce/same-session', 'nonce/late-copy'] },
  { name: 'renews_tokens_of_copies', fails: ['nonce/same-session'] },
  { name: 'knows_nonces_of_others', fails: ['nonce/of-another'] },
  { name: 'never_renews', fails: ['auth/renews'], client: true },
  { name: 'ignores_goaway', fails: ['goaway/no-new-streams'], client: true },
  { name: 'counts_agents_from_one', fails: ['agents/is-addressed'], client: true },
  { name: 'follows_one_too_far', fails: ['replies/of-the-client'], client: true },
  { name: 'repeats_handled_messages', fails: ['durable/writes-again'], client: true },
  { name: 'calls_nothing_again', fails: ['durable/writes-again'], client: true },
  { name: 'has_one_message_more', fails: ['durable/have'], client: true },
  { name: 'forgets_rebuild', fails: ['rebuild/of-the-client'], client: true },
  { name: 'holds_repeats', fails: ['resume/repeats-beyond-the-rate'], client: true },
  { name: 'compares_no_principals', fails: ['resume/other-principal'] },
  { name: 'outlives_its_window', fails: ['resume/window-passes'], client: true },
  { name: 'codes_parts_again', fails: ['replies/as-coded'] },
  { name: 'refuses_before_goaway_was_read', fails: ['goaway/served-after-resume'] },
  { name: 'counts_any_pong', fails: ['goaway/pong-of-before'] },
  { name: 'loses_half_messages', fails: ['rebuild/half-received-message'] },
  { name: 'checks_compressed_bytes', fails: ['tensors/compressed'] },
  { name: 'passes_redelivered_on', fails: ['agents/redelivered-is-removed'] },
  { name: 'tells_no_end_of_credentials', fails: ['auth/is-told'] },
  { name: 'tells_goaway_once', fails: ['goaway/again'] },
  { name: 'takes_codecs_for_loaded', fails: ['ready/not-before'] },
  { name: 'names_another_sender', fails: ['agents/messages'] },
  { name: 'admits_that_replies_exist', fails: ['replies/unknown'] },
  { name: 'begins_replies_elsewhere', fails: ['replies/followed'] },
  { name: 'believes_any_count', fails: ['rebuild/count-too-large'] },
  { name: 'lists_no_interrupted_requests', fails: ['rebuild/open-requests'] },
  { name: 'handles_everything_again', fails: ['durable/acknowledges-what-is-handled'] },
  { name: 'ignores_numbers', fails: ['http/repeated-number', 'http/out-of-order'] },
  { name: 'takes_any_key', fails: ['http/unknown-key'] },
  { name: 'waits_for_whole_requests', fails: ['http/half-a-request'] },
  { name: 'reads_whole_requests', fails: ['http/any-pieces'] },
  { name: 'forgets_its_close', fails: ['http/closed-by-the-server'] },
  { name: 'ignores_closes', fails: ['http/closed-by-the-client'] },
  { name: 'admits_any_page', fails: ['http/other-origin'] },
  { name: 'takes_any_body', fails: ['http/refuses'] },
  { name: 'counts_from_zero', fails: ['http/of-the-client'], client: true },
  { name: 'sends_without_an_answer', fails: ['http/one-at-a-time'], client: true },
  { name: 'reads_whole_chunks', fails: ['http/pieces'], client: true },
  { name: 'dies_of_keep_alives', fails: ['http/keep-alive'], client: true },
  { name: 'believes_in_failed_requests', fails: ['http/failed-request'], client: true },
  { name: 'ignores_close_codes', fails: ['http/close-ends'], client: true },
  { name: 'says_no_close', fails: ['http/client-closes'], client: true },
].map((fault) => ({ ...fault, isOurs: true }));

/** The abilities that every peer here has beside its fault. */
const SOUND = ['handshake/accept', 'streams/response', 'messages/ping'];
/** A peer that is silent by fault is waited for as long. */
const TIMEOUT_MS = 2_500;

type Close = () => unknown;

/** @param closing gets what the test has to close. */
async function started({ name, client, isOurs }: Fault, closing: Close[]): Promise<Door> {
  if (isOurs === true) return await startedOurs(name, client === true, closing);
  const kept = (peer: PythonPeer) => void closing.push(() => peer.stop());
  if (client !== true) {
    const peer = await startPython(undefined, { fault: name });
    kept(peer);
    return new Dialer(peer.url, TIMEOUT_MS);
  }
  const door = await Listener.listen(0, TIMEOUT_MS);
  closing.push(() => door.close());
  kept(await startPython(door.url, { fault: name }));
  return door;
}

async function startedOurs(name: string, isClient: boolean, closing: Close[]): Promise<Door> {
  const [fault, overHttp] = [OURS[name], HTTP_FAULTS[name]];
  const start = async (url: string) => {
    if (overHttp !== undefined) return await startFaultyHttp(url, overHttp);
    if (fault === undefined) throw new Error(`there is no fault ${name}`);
    return await startFaulty(url, fault);
  };
  if (!isClient) {
    const server = await serve();
    closing.push(() => server.close());
    const faulty = await start(server.url);
    closing.push(() => faulty.close());
    return new Dialer(faulty.url, TIMEOUT_MS);
  }
  const door = await Listener.listen(0, TIMEOUT_MS);
  closing.push(() => door.close());
  const faulty = await start(door.url);
  closing.push(() => faulty.close());
  const stop = new AbortController();
  closing.push(() => stop.abort());
  void visit(faulty.url, stop.signal, overHttp !== undefined);
  return door;
}

/** @returns the names of the scenarios that have failed. */
async function failures(fault: Fault, only: readonly string[]): Promise<string[]> {
  const closing: Close[] = [];
  try {
    const verdicts = await run(await started(fault, closing), { only });
    return verdicts.filter(({ verdict }) => verdict === 'failed').map(({ name }) => name);
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

async function check(fault: Fault): Promise<void> {
  const all = process.env['CONFORMANCE_ALL'] !== undefined;
  const failed = await failures(fault, all ? [] : [...SOUND, ...fault.fails]);
  for (const name of fault.fails) expect(failed).toContain(name);
  for (const name of SOUND) expect(failed).not.toContain(name);
  // The first part of the specification that a peer does not follow is the one that is broken.
  const part = (name = '') => name.split('/')[0];
  expect(part(failed[0])).toBe(part(fault.fails[0]));
}

describe.skipIf(pythonMissing !== undefined)(pythonMissing ?? 'a peer with a fault', () => {
  it.concurrent.each(FAULTS)('$name fails $fails', check);
});

describe('our own peer with a fault', () => {
  it.concurrent.each(OUR_FAULTS)('$name fails $fails', check);
});
