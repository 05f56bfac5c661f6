-- after: sales.sql
CREATE TABLE IF NOT EXISTS by_shop (shop BIGINT, pieces BIGINT, run STRING) USING parquet;

INSERT OVERWRITE by_shop
SELECT shop, sum(pieces), :run
FROM sales
GROUP BY shop;

-- A query can check what was written. If this is not true, the task fails.
SELECT assert_true(count(*) = :shops) FROM by_shop;
