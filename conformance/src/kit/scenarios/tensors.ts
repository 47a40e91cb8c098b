import type { Scenario } from '../scenario.js';

export const TENSORS: readonly Scenario[] = [];
