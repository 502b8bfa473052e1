-- With `source.manage: false`: the publication is made here, and syncd needs no right to change anything. Its name is
-- syncd_<name>, where <name> is the sync's, unless `source.publication` says another. As the tables' owner, with CREATE on the
-- database, or as a superuser.
CREATE PUBLICATION syncd_shop FOR TABLE public.customers, public.orders;
