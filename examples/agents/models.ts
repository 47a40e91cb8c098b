import { type EncodingName, type ModelIdentity, modelIdentity } from '@parlance/protocol';

export interface Model {
  readonly identity: ModelIdentity;
  readonly encoding: EncodingName;
}

const config = (fields: Readonly<Record<string, string | number>>): ModelIdentity =>
  modelIdentity(JSON.stringify(fields));

/** Two models with different vocabularies that cannot read each other's hidden states. */
export const MODELS = {
  alpaca: {
    identity: config({
      model_type: 'llama',
      hidden_size: 2048,
      num_hidden_layers: 16,
      num_attention_heads: 32,
    }),
    encoding: 'CL100K_BASE',
  },
  heron: {
    identity: config({
      model_type: 'gemma',
      hidden_size: 3072,
      num_hidden_layers: 28,
      num_attention_heads: 16,
    }),
    encoding: 'O200K_BASE',
  },
} as const satisfies Readonly<Record<string, Model>>;

export type ModelName = keyof typeof MODELS;
