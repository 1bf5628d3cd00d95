CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'localhost';
ALTER USER 'slurm'@'localhost' IDENTIFIED BY 'not-a-secret';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';
