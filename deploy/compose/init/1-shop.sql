-- The shop's own: its role, its tables, some rows.
CREATE ROLE shop LOGIN PASSWORD 'trial';
GRANT CREATE ON SCHEMA public TO shop;
SET ROLE shop;
CREATE TABLE customers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, email text);
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id int NOT NULL REFERENCES customers,
    state text NOT NULL DEFAULT 'new', total numeric(10,2) NOT NULL, placed timestamptz NOT NULL DEFAULT now());
INSERT INTO customers (name, email) SELECT 'Customer ' || n, 'c' || n || '@example.com' FROM generate_series(1, 1000) n;
INSERT INTO orders (customer_id, total) SELECT 1 + (random() * 999)::int, (random() * 500)::numeric(10,2) FROM generate_series(1, 5000);
RESET ROLE;
