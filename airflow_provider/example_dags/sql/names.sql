-- This file depends on no other, so it is a task of its own, on any worker.
CREATE TABLE IF NOT EXISTS names (shop BIGINT, name STRING) USING parquet;

INSERT OVERWRITE names
SELECT id, concat('shop ', id, '; open')
FROM range(100)
WHERE id < :shops;
