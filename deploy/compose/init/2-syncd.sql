-- What syncd needs, with `manage: false`: as postgres/role.sql and postgres/publication.sql have it.
CREATE ROLE syncd LOGIN REPLICATION PASSWORD 'trial';
GRANT CONNECT ON DATABASE shop TO syncd;
GRANT USAGE ON SCHEMA public TO syncd;
GRANT SELECT ON public.customers, public.orders TO syncd;
CREATE PUBLICATION syncd_shop FOR TABLE public.customers, public.orders;
