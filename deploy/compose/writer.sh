#!/usr/bin/env bash
# A shop that is open: orders come, change and go, twenty times a second.
set -euo pipefail
while :; do
  for _ in $(seq 20); do
    cat <<'SQL'
INSERT INTO orders (customer_id, total) SELECT id, (random() * 500)::numeric(10,2) FROM customers ORDER BY random() LIMIT 1;
UPDATE orders SET state = (ARRAY['paid', 'packed', 'sent'])[1 + floor(random() * 3)] WHERE id = (SELECT id FROM orders ORDER BY random() LIMIT 1);
DELETE FROM orders WHERE id = (SELECT min(id) FROM orders) AND (SELECT count(*) FROM orders) > 5000;
SQL
  done | psql -q -v ON_ERROR_STOP=1
  touch /tmp/wrote
  sleep 1
done
