import { byId, create } from '../shared/dom.js';

/** The field with the name of the model. Any name may be entered; the API's own list helps. */
export interface ModelChoice {
  readonly model: string;
}

const DEFAULT = 'gpt-4o';
const KEY = 'parlance-model';

/** @param list returns the names of the API; called when the field gets the focus for the first time. */
export function createModelChoice(list: () => Promise<readonly string[]>): ModelChoice {
  const field = byId<HTMLInputElement>('model');
  const given = new URLSearchParams(location.search).get('model');
  field.value = given ?? stored() ?? DEFAULT;
  let isListed = false;
  field.addEventListener('focus', async () => {
    if (isListed) return;
    isListed = true;
    const names = await list();
    isListed = names.length > 0;
    byId('models').replaceChildren(...names.map((value) => create('option', { value })));
  });
  field.addEventListener('change', () => {
    if (field.value.trim() === '') field.value = given ?? DEFAULT;
    store(field.value.trim());
  });
  return {
    get model() {
      return field.value.trim() || DEFAULT;
    },
  };
}

function stored(): string | undefined {
  try {
    return sessionStorage.getItem(KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

function store(model: string): void {
  try {
    sessionStorage.setItem(KEY, model);
  } catch {
    // The browser blocks storage; then the choice lasts until the page is loaded again.
  }
}
