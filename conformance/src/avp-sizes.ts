import { makeRecipe, sha256, toHex } from './avp-bytes.js';
import { accepted, fail, holds, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import { type Dtype, decodeAvp, encodeAvp } from './subject.js';

/** The size table of the AVP document, and the same messages in today's format. */
export const avpSizes: Family = {
  file: 'avp-sizes.json',
  head: ['generator', 'encoding', 'recipes'],
  sections: [{ name: 'rows', check: checkRow }],
};

const DTYPES = ['float32', 'float16', 'bfloat16', 'int8'] as const satisfies readonly Dtype[];

function checkRow(given: Fields): void {
  const messages = given.objects('current_format_recipes_with_the_same_total');
  holds(messages.length > 0, 'the row has no message to encode');
  const table = given.object('seed_table').number('avp');
  for (const message of messages)
    same(checkMessage(message, given.text('dtype')), table, "bytes of the document's table");
  checkCurrentFormat(given, makeRecipe((messages[0] as Fields).object('payload_recipe')));
}

/** The message of the document's benchmark in today's format; its checksum takes four or five bytes. */
function checkCurrentFormat(given: Fields, data: Uint8Array): void {
  const current = given.object('current_format');
  const modelId = /model_id='([^']*)'/.exec(current.text('metadata'))?.[1];
  if (modelId === undefined) return fail('the row does not name the model of its message');
  const dim = given.number('dim');
  const dtype = given.word('dtype', DTYPES);
  const input = {
    data,
    shape: [dim],
    dtype,
    payloadType: 'hidden_state',
    metadata: { modelId, hiddenDim: dim },
  } as const;
  const total = accepted(() => encodeAvp(input), 'the message').length;
  const [min, max] = [current.number('avp_total_min'), current.number('avp_total_max')];
  holds(total >= min && total <= max, `${total} bytes are not within ${min} to ${max}`);
}

/** @returns the bytes of the frame. */
function checkMessage(given: Fields, dtype: string): number {
  const stated = DTYPES.find((known) => known.toUpperCase() === given.text('dtype'));
  if (stated === undefined) return fail(`the runner does not know the dtype ${given.text('dtype')}`);
  same(stated, dtype, 'dtype');
  const data = makeRecipe(given.object('payload_recipe'));
  const frame = accepted(
    () =>
      encodeAvp(
        {
          data,
          shape: given.numbers('tensor_shape'),
          dtype: stated,
          payloadType: 'hidden_state',
          metadata: { modelId: given.text('model_id'), hiddenDim: given.number('hidden_dim') },
        },
        { checksum: given.flag('checksum') },
      ),
    'the message',
  );
  const overhead = given.number('overhead');
  same(toHex(frame.subarray(0, overhead)), given.text('head_hex'), 'head_hex');
  same(frame.length - data.length, overhead, 'overhead');
  same(frame.length, given.number('total'), 'total');
  same(sha256(frame), given.text('frame_sha256'), 'frame_sha256');
  same(sha256(accepted(() => decodeAvp(frame), 'our own frame').data), sha256(data), 'payload');
  return frame.length;
}
