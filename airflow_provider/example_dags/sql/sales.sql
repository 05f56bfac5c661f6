-- Made-up sales: nothing has to be there.
CREATE TABLE IF NOT EXISTS sales (shop BIGINT, pieces BIGINT) USING parquet;

-- This may run twice: it replaces what it has written.
INSERT OVERWRITE sales
SELECT id % :shops, 1 + id % 10
FROM range(100000)
WHERE id < :sales;
