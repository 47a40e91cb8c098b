'use client';

import { useEffect } from 'react';
import { exchange, useAll } from '../page.js';

export default function Page() {
  useEffect(() => {
    Object.assign(globalThis, { exchange, useAll });
  }, []);
  return <p>A page</p>;
}
