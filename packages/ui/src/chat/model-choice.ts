import { byId, create } from '../shared/dom.js';

/** The menu of models. Any name may be entered; the API's own list comes first. */
export interface ModelChoice {
  readonly model: string;
}

const DEFAULT = 'gpt-4o';
const KEY = 'parlance-model';

/** @param list returns the names of the API; called when the menu is opened, until there are some. */
export function createModelChoice(list: () => Promise<readonly string[]>): ModelChoice {
  const opener = byId<HTMLButtonElement>('model-open');
  const menu = byId('model-menu');
  const names = byId('model-names');
  const told = byId('model-told');
  const form = byId<HTMLFormElement>('model-form');
  const field = byId<HTMLInputElement>('model-other');
  const given = new URLSearchParams(location.search).get('model');
  let model = given ?? stored() ?? DEFAULT;
  let listed: readonly string[] = [];

  function choose(name: string): void {
    model = name;
    store(name);
    show();
    menu.hidePopover();
    byId('question').focus();
  }

  function show(): void {
    byId('model-name').textContent = model;
    names.replaceChildren(
      ...listed.map((name) => {
        const button = create('button', { type: 'button' }, name);
        if (name === model) button.ariaCurrent = 'true';
        button.addEventListener('click', () => choose(name));
        return create('li', {}, button);
      }),
    );
  }

  async function load(): Promise<void> {
    if (listed.length > 0) return;
    told.textContent = 'Asking the API …';
    listed = await list();
    told.textContent = listed.length === 0 ? 'The API lists no models.' : '';
    show();
    place();
  }

  function place(): void {
    const { right, bottom } = opener.getBoundingClientRect();
    const { width } = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(8, Math.min(right - width, window.innerWidth - width - 8))}px`;
    menu.style.top = `${bottom + 4}px`;
  }

  menu.addEventListener('toggle', (event) => {
    const isOpen = (event as ToggleEvent).newState === 'open';
    opener.ariaExpanded = String(isOpen);
    if (!isOpen) return;
    place();
    field.focus();
    void load();
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const name = field.value.trim();
    field.value = '';
    if (name !== '') choose(name);
  });
  show();
  return {
    get model() {
      return model;
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
