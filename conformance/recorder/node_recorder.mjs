// A reporter for Node's own test runner that writes down what became of every test, one JSON value
// a line, as conformance_recorder.py does for pytest. A test is FILE::NAMES, the names of the suites
// around it first.

import path from 'node:path';

const root = process.env.CONFORMANCE_SOURCE;

function essence(error) {
  const cause = error?.cause ?? error;
  return String(cause?.message ?? cause).split('\n').slice(0, 3).join(' | ').slice(0, 600);
}

export default async function* record(events) {
  // The names around the test that runs, per file: an event tells its own name and depth only.
  const around = new Map();
  for await (const { type, data } of events) {
    const file = path.relative(root, data?.file ?? root);
    if (type === 'test:start') {
      const names = around.get(file) ?? [];
      names.length = data.nesting;
      names[data.nesting] = data.name;
      around.set(file, names);
    } else if (type === 'test:pass' || type === 'test:fail') {
      if (data.details.type === 'suite') continue;
      const names = [...(around.get(file) ?? []).slice(0, data.nesting), data.name];
      const test = `${file}::${names.join('::')}`;
      if (data.skip !== undefined || data.todo !== undefined) {
        const why = data.skip ?? data.todo;
        yield JSON.stringify({ kind: 'skipped', test, why: why === true ? '' : String(why) }) + '\n';
      } else if (type === 'test:pass') {
        yield JSON.stringify({ kind: 'passed', test, seconds: data.details.duration_ms / 1000 }) + '\n';
      } else {
        yield JSON.stringify({ kind: 'failed', test, why: essence(data.details.error) }) + '\n';
      }
    }
  }
}
